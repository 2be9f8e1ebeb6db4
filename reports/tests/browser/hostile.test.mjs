// Runs whose names are code, and a run that goes on.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { get } from 'node:http';
import { connect } from 'node:net';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { address, browser, changed, open, program, record, replace, report, waitFor } from './pages.mjs';

after(() => browser.close());

const NAME = '<script>window.hacked=1</script><img src=x onerror=window.hacked=2>';
const quoted = (text) => `"${text.replaceAll('"', '""')}"`;

test('names that are code are text', async () => {
  const everywhere = (name) => (text) => text.replaceAll('lstm@b20@dp1', name);
  const inCsv = everywhere(NAME);
  const copies = [
    changed('hostile-single', '20261121-epyc', { 'summary.csv': inCsv, 'measurements.csv': inCsv }),
    changed('hostile-colocate', '20261123-epyc/colocate/all-pairs-1', { 'interference.csv': inCsv, 'summary.csv': inCsv }),
    changed('hostile-sched', '20261124-epyc/testbed/fifo', {
      'outcomes.csv': (text) => text.replaceAll(',lstm,', `,${NAME},`).replaceAll(/^(\d+),([^,]+),/gm, `$1,${quoted(`$2 ${NAME} ../../etc/passwd \u202e`)},`),
      'predictions.csv': (text) => text.replaceAll(/^(\d+),([^,]+),/gm, `$1,${quoted(`$2 ${NAME} ../../etc/passwd \u202e`)},`),
      'manifest.toml': (text) => text.replace('policy = "fifo"', `policy = '${NAME}'`),
    }),
  ];
  const out = report('hostile', copies);
  const { page, wrong, asked, close } = await open(address(out));
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.deepEqual(wrong, []);
  assert.deepEqual(asked, [address(out)]);
  assert.ok((await page.textContent('body')).includes(NAME), 'the name is shown as it is');
  for (const file of readdirSync(join(out, 'figures'))) assert.match(file, /^[a-z0-9-]+\.(csv|svg|png)$/);
  for (const file of readdirSync(join(out, 'figures')).filter((name) => name.endsWith('.svg'))) {
    await page.goto(`file://${join(out, 'figures', file)}`);
    assert.equal(await page.evaluate(() => window.hacked), undefined, file);
    assert.deepEqual(wrong, [], file);
  }
  await close();
});

test('names of any length and direction fit the page', async () => {
  const name = `"${'long '.repeat(60)}${'x'.repeat(200)}\n\u202e../\u0000\u{1f600}"`;
  const long = (text) => text.replaceAll('lstm@b20@dp1', name);
  const copy = changed('long', '20261121-epyc', { 'summary.csv': long, 'measurements.csv': long });
  for (const width of [1280, 400]) {
    const { page, wrong, close } = await open(address(report('long', [copy])), { width });
    await page.evaluate(() => document.querySelectorAll('details').forEach((details) => { details.open = true; }));
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${width}`);
    assert.ok((await page.textContent('[id=summary]')).includes('long long'));
    assert.deepEqual(wrong, []);
    await close();
  }
});

test('a text that a spreadsheet would take for a formula begins with an apostrophe', () => {
  const name = '=cmd|calc!A1';
  const copy = changed('formula', '20261121-epyc', { 'summary.csv': (text) => text.replaceAll('lstm@b20@dp1', name) });
  const csv = readFileSync(join(report('formula', [copy]), 'figures/summary.csv'), 'utf8');
  assert.ok(csv.includes(`'${name}`) && !csv.split(/[,\n]/).some((cell) => cell.startsWith('=')));
});

/** A run that has three rows, and 23 after `complete`, on a server that ends with the test. */
const served = async (t, name) => {
  const all = readFileSync(join(record('20261121-epyc'), 'summary.csv'), 'utf8');
  const run = changed(name, '20261121-epyc', { 'summary.csv': () => `${all.split('\n').slice(0, 4).join('\n')}\n` });
  const server = spawn(program, ['serve', run], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => server.kill('SIGKILL'));
  const url = await new Promise((done, fail) => {
    server.stdout.once('data', (line) => done(String(line).trim()));
    server.once('exit', (code) => fail(new Error(`the server ended with ${code}`)));
  });
  return { server, url, complete: () => replace(join(run, 'summary.csv'), all) };
};
const countOf = (page) => () => page.$$eval('[id=summary] tbody tr', (all) => all.length);

test('a page that is served shows what has changed, and says when the server has ended', async (t) => {
  const { server, url, complete } = await served(t, 'live');
  assert.match(url, /^http:\/\/127\.0\.0\.1:\d+\/$/);
  const { page, wrong, asked, close } = await open(url);
  assert.equal(await countOf(page)(), 3);
  // What a reader has done to the page stays as it is.
  await page.setViewportSize({ width: 1280, height: 300 });
  await page.locator('[id=summary] th button').first().click();
  await page.locator('[id=summary] th button').first().click();
  await page.fill('[id=summary] [data-filter]', 'mini');
  await page.click('[id=step-median] .numbers > summary');
  await page.evaluate(() => scrollTo({ top: 500, behavior: 'instant' }));
  complete();
  await waitFor('the page has all rows', countOf(page), (rows) => rows === 23);
  assert.equal(await page.evaluate(() => scrollY), 500);
  assert.ok(await page.$eval('[id=step-median] .numbers', (details) => details.open));
  const names = await page.$$eval('[id=summary] tbody tr:not([hidden])', (all) => all.map((row) => row.cells[0].textContent));
  assert.ok(names.length > 3 && names.every((name) => name.includes('mini')));
  assert.deepEqual(names, [...names].sort((a, b) => b.localeCompare(a, 'en', { numeric: true })));
  assert.deepEqual(wrong, []);
  assert.ok(asked.every((address) => [url, `${url}state`].includes(address)), asked.join(' '));
  // `fetch` sets the host itself.
  const status = await new Promise((done) => get(url, { headers: { host: 'elsewhere.example' } }, (answer) => done(answer.statusCode)));
  assert.equal(status, 403);
  const others = Object.values(networkInterfaces()).flat().filter(({ family, internal }) => family === 'IPv4' && !internal);
  for (const { address } of others) {
    await assert.rejects(new Promise((done, fail) => connect(new URL(url).port, address, done).on('error', fail)), address);
  }
  server.kill('SIGINT');
  await new Promise((done) => server.once('exit', done));
  await waitFor('the page says that the server has ended', () => page.textContent('#live'), (said) => said.includes('has ended'));
  await close();
});

test('a page shows what has changed before it asked for the first time', async (t) => {
  const { url, complete } = await served(t, 'early');
  const state = async () => (await fetch(`${url}state`)).text();
  const before = await state();
  const { page, close } = await open('about:blank');
  let answer;
  const changes = new Promise((done) => { answer = done; });
  await page.route('**/state', async (route) => { await changes; await route.continue(); });
  await page.goto(url);
  assert.equal(await countOf(page)(), 3);
  complete();
  await waitFor('the server has read the change', state, (now) => now !== before);
  answer();
  await waitFor('the page has all rows', countOf(page), (rows) => rows === 23);
  await close();
});
