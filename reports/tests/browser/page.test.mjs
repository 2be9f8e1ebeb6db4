// The page as people see it: it loads nothing, and its tables, themes and pictures work.

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import axe from 'axe-core';
import { RUNS, address, browser, open, report, waitFor } from './pages.mjs';

after(() => browser.close());

for (const name of Object.keys(RUNS)) {
  test(`${name}: nothing is loaded, no error is printed, and every link leads to a file`, async () => {
    const out = report(name);
    const { page, wrong, asked, close } = await open(address(out));
    assert.deepEqual(wrong, []);
    assert.deepEqual(asked, [address(out)]);
    const links = await page.$$eval('a[href]', (all) => all.map((a) => a.getAttribute('href')));
    for (const link of links.filter((link) => !link.startsWith('#'))) assert.ok(existsSync(join(out, link)), link);
    for (const link of links.filter((link) => link.startsWith('#'))) {
      assert.ok(await page.$(`[id="${link.slice(1)}"]`), link);
    }
    const pictures = links.filter((link) => /\.(svg|png)$/.test(link));
    const sizes = [];
    for (const picture of pictures) {
      await page.goto(`file://${join(out, picture)}`);
      sizes.push(await page.evaluate(() => document.querySelector('img')?.naturalWidth ?? document.documentElement.viewBox?.baseVal.width));
    }
    assert.ok(sizes.every((width) => width === 1720), `${pictures.length} pictures: ${sizes}`);
    assert.deepEqual(wrong, []);
    await close();
  });

  for (const width of [1280, 400]) {
    test(`${name}: axe finds no serious violation at ${width} pixels, light and dark`, async () => {
      const { page, close } = await open(address(report(name)), { width, bypassCSP: true });
      await page.evaluate(() => document.querySelectorAll('details').forEach((details) => { details.open = true; }));
      await page.evaluate(axe.source);
      for (const [colorScheme, rules] of [['light', undefined], ['dark', { runOnly: ['color-contrast'] }]]) {
        await page.emulateMedia({ colorScheme });
        const { violations } = await page.evaluate((rules) => window.axe.run(document, { resultTypes: ['violations'], ...rules }), rules);
        const serious = violations.filter(({ impact }) => ['serious', 'critical'].includes(impact));
        assert.deepEqual(serious.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join(' | ')}`), [], colorScheme);
      }
      await close();
    });
  }

  for (const width of [1280, 400]) {
    test(`${name}: no text overlaps or is cut off at ${width} pixels`, async () => {
      const { page, close } = await open(address(report(name)), { width });
      const found = await page.evaluate(() => {
        const wrong = [];
        document.querySelectorAll('details').forEach((details) => { details.open = true; });
        if (document.documentElement.scrollWidth > innerWidth) wrong.push(`the page is ${document.documentElement.scrollWidth} wide`);
        for (const element of document.querySelectorAll('h1, h2, h3, p, li, dd, td, th, summary, button')) {
          if (element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0) wrong.push(`'${element.textContent.slice(0, 60)}' is cut off`);
        }
        for (const svg of document.querySelectorAll('.picture svg')) {
          const frame = svg.getBoundingClientRect();
          const texts = [...svg.querySelectorAll('text')].map((text) => [text.textContent, text.getBoundingClientRect()]);
          const id = svg.closest('figure').id;
          texts.forEach(([words, box], i) => {
            if (box.left < frame.left - 2 || box.right > frame.right + 2 || box.top < frame.top - 2 || box.bottom > frame.bottom + 2) wrong.push(`${id}: '${words}' is cut off`);
            for (const [others, other] of texts.slice(i + 1)) {
              const x = Math.min(box.right, other.right) - Math.max(box.left, other.left);
              const y = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
              // Boxes of letters have room above and below them.
              if (x > 2 && y > Math.min(box.height, other.height) * 0.35) wrong.push(`${id}: '${words}' and '${others}'`);
            }
          });
        }
        return wrong;
      });
      assert.deepEqual(found.slice(0, 12), [], `${found.length} in all`);
      await close();
    });
  }
}

test('three figures are open; a link to a folded one opens it, and so does printing until it is done', async () => {
  const out = report('policies');
  const { page, close } = await open(address(out));
  const isOpen = (id) => page.evaluate((id) => document.getElementById(id).querySelector('.fold').open, id);
  const ids = await page.$$eval('figure', (all) => all.map((figure) => figure.id));
  const states = async () => Promise.all(ids.map(isOpen));
  const before = await states();
  assert.equal(before.filter(Boolean).length, 3);
  const [first, second] = ids.filter((_, at) => !before[at]);
  await page.click(`nav a[href="#${first}"]`);
  assert.ok(await isOpen(first));
  const printed = await page.evaluate(() => {
    dispatchEvent(new Event('beforeprint'));
    const open = [...document.querySelectorAll('.fold')].every((fold) => fold.open);
    dispatchEvent(new Event('afterprint'));
    return open;
  });
  assert.ok(printed);
  assert.equal((await states()).filter(Boolean).length, 4);
  await close();
  const linked = await open(`${address(out)}#${second}`);
  assert.ok(await linked.page.evaluate((id) => document.getElementById(id).querySelector('.fold').open, second));
  await linked.page.click('#unfold');
  assert.ok(await linked.page.$$eval('.fold', (all) => all.every((fold) => fold.open)));
  await linked.close();
});

const rows = (page, figure, column) => page.$$eval(
  `[id="${figure}"] tbody tr:not([hidden])`,
  (all, column) => all.map((row) => row.cells[column].dataset.v),
  column,
);

test('a header sorts by value, both ways, with missing values last', async () => {
  const { page, close } = await open(address(report('single')));
  const column = await page.$$eval('[id=summary] th', (all) => all.findIndex((th) => th.textContent.includes('median step')));
  const header = page.locator('[id=summary] th').nth(column);
  await header.locator('button').click();
  const up = (await rows(page, 'summary', column)).filter(Boolean).map(Number);
  assert.ok(up.length > 20);
  assert.deepEqual(up, [...up].sort((a, b) => a - b));
  assert.equal(await header.getAttribute('aria-sort'), 'ascending');
  await header.locator('button').press('Enter');
  const down = await rows(page, 'summary', column);
  assert.deepEqual(down.filter(Boolean).map(Number), [...up].reverse());
  const p99 = await page.$$eval('[id=summary] th', (all) => all.findIndex((th) => th.textContent.includes('p99')));
  await page.locator('[id=summary] th button').nth(p99).click();
  const known = (await rows(page, 'summary', p99)).map((value) => value !== '');
  assert.ok(known.includes(false) && known.includes(true));
  assert.deepEqual(known, [...known].sort((a, b) => b - a));
  await close();
});

test('tables are reached and used with keys alone', async () => {
  const { page, close } = await open(address(report('single')));
  await page.focus('[id=summary] .fold > summary');
  const isIn = (selector) => page.evaluate((selector) => document.activeElement.matches(selector), selector);
  for (let presses = 0; !(await isIn('[id=summary] [data-filter]')); presses += 1) {
    assert.ok(presses < 10, 'the filter is reached');
    await page.keyboard.press('Tab');
  }
  await page.keyboard.type('resnet18');
  assert.equal((await rows(page, 'summary', 0)).length, 1);
  await page.keyboard.press('Tab');
  assert.ok(await isIn('.table'), 'a table is scrolled with arrows');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Space');
  assert.equal(await page.locator('[id=summary] th').first().getAttribute('aria-sort'), 'ascending');
  await close();
});

test('words filter rows, and the number of rows is said', async () => {
  const { page, close } = await open(address(report('single')));
  const field = page.locator('[id=summary] [data-filter]');
  await field.fill('mini resnet18');
  const names = await rows(page, 'summary', 0);
  assert.deepEqual(names, ['resnet18-mini@b16@dp1']);
  assert.match(await page.locator('[id=summary] output').textContent(), /^1 of 23 rows$/);
  await field.fill('');
  assert.equal((await rows(page, 'summary', 0)).length, 23);
  await close();
});

test('pointing at a mark shows its numbers, and so does a tap', async () => {
  for (const width of [1280, 400]) {
    const { page, close } = await open(address(report('colocate')), { width });
    const mark = page.locator('[id^=slowdown-heat] .mark[data-value]').first();
    await mark.scrollIntoViewIfNeeded();
    const value = Number(await mark.getAttribute('data-value'));
    if (width < 600) await mark.tap(); else await mark.hover();
    const tip = page.locator('#tip');
    await tip.waitFor({ state: 'visible' });
    assert.match(await tip.textContent(), new RegExp(`victim .*: ${value.toFixed(3)}, 95 % interval`));
    await page.keyboard.press('Escape');
    await tip.waitFor({ state: 'hidden' });
    await close();
  }
});

test('the theme follows the system, and the button changes it for good', async () => {
  const out = report('single');
  const paper = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await open(address(out), { theme: 'dark' });
  assert.equal(await paper(dark.page), 'rgb(21, 24, 28)');
  await dark.page.click('#theme');
  assert.equal(await paper(dark.page), 'rgb(255, 255, 255)');
  await dark.page.reload();
  assert.equal(await paper(dark.page), 'rgb(255, 255, 255)');
  await dark.close();
  const light = await open(address(out));
  assert.equal(await paper(light.page), 'rgb(255, 255, 255)');
  await light.page.emulateMedia({ media: 'print' });
  for (const tool of ['#theme', 'nav', '.filter >> nth=0', '.files >> nth=0']) assert.ok(!(await light.page.isVisible(tool)), tool);
  await light.close();
});

test('the time of a Gantt chart is stretched, moved and shown whole again', async () => {
  const { page, wrong, close } = await open(address(report('policies')));
  const figure = page.locator('figure[id^=gantt]').first();
  await figure.locator('.fold > summary').click();
  await figure.scrollIntoViewIfNeeded();
  const frame = await figure.locator('[data-plot=time]').evaluate((mark) => ({ ...mark.dataset }));
  const shown = () => figure.locator('.mark[data-from]').evaluateAll((all) => all
    .filter((mark) => mark.style.display !== 'none' && mark.querySelector('rect'))
    .map((mark) => ({ from: Number(mark.dataset.from), to: Number(mark.dataset.to), x: Number(mark.querySelector('rect').getAttribute('x')) })));
  const before = await shown();
  await figure.getByRole('button', { name: 'Zoom in' }).click();
  await figure.getByRole('button', { name: 'Zoom in' }).click();
  const [begin, end, left, right] = ['begin', 'end', 'left', 'right'].map((name) => Number(frame[name]));
  const quarter = [begin + (end - begin) * 3 / 8, begin + (end - begin) * 5 / 8];
  const after = await shown();
  assert.ok(after.length < before.length);
  for (const { from, to, x } of after) {
    assert.ok(to >= quarter[0] && from <= quarter[1]);
    const expected = Math.max(left, left + (from - quarter[0]) / (quarter[1] - quarter[0]) * (right - left));
    assert.ok(Math.abs(x - expected) < 0.01, `${x} ${expected}`);
  }
  // Each tick stands where its time is.
  const divisor = Number(frame.divisor);
  const ticks = await figure.locator('svg > g:last-child text').evaluateAll((all) => all.map((text) => [Number(text.textContent), Number(text.getAttribute('x'))]));
  assert.ok(ticks.length >= 3);
  for (const [tick, x] of ticks) {
    const expected = left + (tick * divisor - quarter[0]) / (quarter[1] - quarter[0]) * (right - left);
    assert.ok(Math.abs(x - expected) < 0.5, `${tick}: ${x} ${expected}`);
  }
  // A drag moves the time with the pointer.
  const middle = await figure.locator('svg').boundingBox();
  const firstTick = async () => figure.locator('svg > g:last-child text').first().evaluate((text) => Number(text.textContent));
  const first = await firstTick();
  await page.mouse.move(middle.x + middle.width / 2, middle.y + middle.height / 3);
  await page.mouse.down();
  await page.mouse.move(middle.x + middle.width * 0.8, middle.y + middle.height / 3);
  await page.mouse.up();
  assert.ok(await firstTick() < first);
  await figure.getByRole('button', { name: 'All' }).click();
  for (const _ of [1, 2]) await figure.getByRole('button', { name: 'Zoom in' }).click();
  await figure.getByRole('button', { name: 'Earlier' }).click();
  const earlier = await shown();
  assert.ok(earlier.some(({ to }) => to < quarter[0]));
  const box = await figure.locator('svg').boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 3);
  await page.keyboard.down('Control');
  await page.mouse.wheel(0, 400);
  await waitFor('the wheel has changed the time', shown, (now) => JSON.stringify(now) !== JSON.stringify(earlier));
  await page.keyboard.up('Control');
  await page.mouse.dblclick(box.x + box.width / 2, box.y + box.height / 3);
  assert.deepEqual((await shown()).map(({ from }) => from), before.map(({ from }) => from));
  assert.deepEqual(wrong, []);
  await close();
});

test('numbers on the page are those of the CSV files', async () => {
  const out = report('policies');
  const { page, close } = await open(address(out));
  for (const id of await page.$$eval('figure', (all) => all.map((figure) => figure.id))) {
    const lines = readFileSync(join(out, 'figures', `${id}.csv`), 'utf8').trimEnd().split('\n').length - 1;
    const shown = await page.$$eval(`[id="${id}"] tbody tr`, (all) => all.length);
    assert.equal(shown, Math.min(lines, 500), id);
  }
  await close();
});
