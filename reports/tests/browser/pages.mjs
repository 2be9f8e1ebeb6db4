// What the tests share: pages that `report` makes of committed records, and a browser that notes whatever a page should not do.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

export const root = join(dirname(fileURLToPath(import.meta.url)), '../../..');
export const record = (name) => join(root, 'reports/record', name);

/** The program under test. */
export const program = process.env.TANDEM_REPORT ?? join(root, 'target/debug/report');

/** A time that only a hanging program takes, on a machine whose cores are all busy. A server rests for 30 times as long as making a page took. */
const LONG_MS = 600_000;

/** Looks until `isIt` accepts what `look` returns. Nothing else in a test waits for a time in which something should have happened. */
export const waitFor = async (what, look, isIt) => {
  const end = performance.now() + LONG_MS;
  for (let seen = await look(); !isIt(seen); seen = await look()) {
    assert.ok(performance.now() < end, `waited in vain until ${what}; last seen: ${JSON.stringify(seen)}`);
    await new Promise((done) => setTimeout(done, 20));
  }
};

/** Runs of each kind, by the name of their page. */
export const RUNS = {
  single: ['20261121-epyc'],
  plans: ['20261123-epyc/plans'],
  colocate: ['20261123-epyc/colocate/all-pairs-1'],
  sharing: ['20261122-epyc/colocate/sharing-bert-espcn'],
  policies: ['fifo', 'packing-fifo', 'tiresias'].map((name) => `20261124-epyc/testbed/${name}`),
};

/** A folder that is removed at the end of the tests. */
const folder = mkdtempSync(join(tmpdir(), 'report-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));

/** Makes the report of runs, once for each name, and returns its folder. */
const made = new Map();
export const report = (name, runs = RUNS[name].map(record)) => {
  if (!made.has(name)) {
    const out = join(folder, `page-${name}`);
    execFileSync(program, [...runs, '--out', out], { stdio: 'pipe' });
    made.set(name, out);
  }
  return made.get(name);
};

/** A copy of a record that a test may change: `change` takes a file's text by its name and returns another. */
export const changed = (name, from, change) => {
  const copy = join(folder, name);
  cpSync(record(from), copy, { recursive: true });
  for (const [file, edit] of Object.entries(change)) {
    writeFileSync(join(copy, file), edit(readFileSync(join(copy, file), 'utf8')));
  }
  return copy;
};

/** Replaces a file at once, as a run does: a reader sees the old one or the new one. */
export const replace = (file, text) => {
  writeFileSync(`${file}.new`, text);
  renameSync(`${file}.new`, file);
};

const ARGUMENTS = ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--disable-quic'];
export const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ARGUMENTS,
  timeout: LONG_MS,
});

/** Opens a page. `wrong` collects messages of the console, errors of scripts and failed requests; `asked` has all requests. */
export const open = async (address, { width = 1280, theme = 'light', ...options } = {}) => {
  const context = await browser.newContext({
    viewport: { width, height: 900 }, colorScheme: theme, hasTouch: width < 600, ...options,
  });
  context.setDefaultTimeout(LONG_MS);
  const page = await context.newPage();
  const wrong = [];
  const asked = [];
  page.on('console', (message) => { if (['error', 'warning'].includes(message.type())) wrong.push(message.text()); });
  page.on('pageerror', (error) => wrong.push(String(error)));
  page.on('requestfailed', (request) => wrong.push(`failed: ${request.url()}`));
  page.on('request', (request) => { if (!request.url().startsWith('data:')) asked.push(request.url()); });
  await page.goto(address);
  return { page, wrong, asked, close: () => context.close() };
};

export const address = (out) => pathToFileURL(join(out, 'index.html')).href;
