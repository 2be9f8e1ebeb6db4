'use strict';
(() => {
  const root = document.documentElement;
  const all = (selector, of = document) => [...of.querySelectorAll(selector)];

  // Light and dark. Without a choice, the page follows the system.
  const theme = document.getElementById('theme');
  const isDark = () => (root.dataset.theme || (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')) === 'dark';
  const keep = (value) => { try { localStorage.setItem('theme', value); } catch { /* a page from a file may have no storage */ } };
  const kept = () => { try { return localStorage.getItem('theme'); } catch { return null; } };
  const label = () => { theme.textContent = isDark() ? 'Light' : 'Dark'; };
  if (kept() === 'dark' || kept() === 'light') root.dataset.theme = kept();
  theme.hidden = false;
  theme.addEventListener('click', () => {
    root.dataset.theme = isDark() ? 'light' : 'dark';
    keep(root.dataset.theme);
    label();
  });
  label();

  // What a reader points at. A touch points, too.
  const tip = document.getElementById('tip');
  const show = (text, x, y) => {
    tip.textContent = text;
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 4))}px`;
    tip.style.top = `${y + 18 + height > innerHeight ? Math.max(4, y - height - 10) : y + 18}px`;
  };
  const hide = () => { tip.hidden = true; };
  // A title would be shown a second time by the browser, and later.
  const titled = (mark) => {
    const title = mark.querySelector(':scope > title');
    if (title) {
      mark.dataset.title = title.textContent;
      title.remove();
    }
    // The titles of spans are made of their data, which are in the page once.
    const { name, kind, lane, from, to, detail } = mark.dataset;
    if (from !== undefined) return `${name}: ${kind} on ${lane}, ${pretty(Number(from), 'Ns')} to ${pretty(Number(to), 'Ns')}${detail ? `; ${detail}` : ''}`;
    return mark.dataset.title || '';
  };
  const TIMES = [[1, 'ns'], [1e3, 'us'], [1e6, 'ms'], [1e9, 's'], [6e10, 'min'], [3.6e12, 'h']];
  const SIZES = [[1, 'B'], [1024, 'KiB'], [1048576, 'MiB'], [1073741824, 'GiB']];
  const pretty = (value, unit) => {
    const scale = (units) => {
      const [one, name] = units.findLast(([one]) => Math.abs(value) >= one) || units[0];
      return `${Number((value / one).toPrecision(4))} ${name}`;
    };
    if (unit === 'Ns' || unit === 'SignedNs') return scale(TIMES);
    if (unit === 'Bytes') return scale(SIZES);
    if (unit === 'BytesPerS') return `${scale(SIZES)}/s`;
    return String(Number(value.toPrecision(5)));
  };
  const nearest = (mark, event) => {
    const path = mark.querySelector('path');
    if (!mark.dataset.xs || !path) return '';
    const matrix = path.ownerSVGElement.getScreenCTM().inverse();
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix).x;
    const box = path.getBBox();
    const xs = mark.dataset.xs.split(' ').map(Number);
    const ys = mark.dataset.ys.split(' ').map(Number);
    const share = box.width > 0 ? (at - box.x) / box.width : 0;
    const isLog = mark.dataset.xScale === 'log';
    const on = (x) => (isLog ? Math.log(x) : x);
    const wanted = on(xs[0]) + share * (on(xs[xs.length - 1]) - on(xs[0]));
    let best = 0;
    xs.forEach((x, i) => { if (Math.abs(on(x) - wanted) < Math.abs(on(xs[best]) - wanted)) best = i; });
    return `: ${pretty(xs[best], mark.dataset.xUnit)}, ${pretty(ys[best], mark.dataset.yUnit)}`;
  };
  // Lines are thin: a mark within a few pixels counts.
  const marked = ({ target, clientX, clientY }) => {
    const of = (element) => element?.closest?.('.mark');
    if (of(target) || !target.closest?.('.picture svg')) return of(target);
    const around = [[4, 0], [-4, 0], [0, 4], [0, -4]];
    return around.map(([x, y]) => of(document.elementFromPoint(clientX + x, clientY + y))).find(Boolean);
  };
  const point = (event) => {
    const mark = marked(event);
    const text = mark && titled(mark);
    if (text) show(text + nearest(mark, event), event.clientX, event.clientY);
    else hide();
  };
  document.addEventListener('pointermove', point);
  document.addEventListener('pointerdown', point);
  document.addEventListener('keydown', (event) => { if (event.key === 'Escape') hide(); });
  addEventListener('scroll', hide, { passive: true });

  // Tables: a click on a header sorts, and words filter. Missing values are last in both orders.
  const sort = (header, order) => {
    const table = header.closest('table');
    const column = header.cellIndex;
    all('th', table).forEach((th) => { th.ariaSort = 'none'; });
    header.ariaSort = order;
    const sign = order === 'ascending' ? 1 : -1;
    const key = (row) => row.cells[column].dataset.v;
    const compare = (a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === '' || y === '') return (x === '') - (y === '');
      const difference = header.classList.contains('n') ? Number(x) - Number(y) : NaN;
      return sign * (Number.isNaN(difference) ? x.localeCompare(y, 'en', { numeric: true }) : difference);
    };
    table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare));
  };
  const filter = (input) => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = all('tbody tr', input.closest('.numbers'));
    let shown = 0;
    rows.forEach((row) => {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += row.hidden ? 0 : 1;
    });
    input.closest('.filter').querySelector('output').textContent = words.length ? `${shown} of ${rows.length} rows` : '';
  };
  document.addEventListener('click', (event) => {
    const header = event.target.closest && event.target.closest('th');
    if (header) sort(header, header.ariaSort === 'ascending' ? 'descending' : 'ascending');
  });
  document.addEventListener('input', (event) => { if (event.target.matches('[data-filter]')) filter(event.target); });

  // The time of lanes: the wheel with Ctrl or buttons stretch it, a drag moves it, a double click shows all of it.
  const ranges = new Map();
  const stretchable = (frame) => {
    const svg = frame.ownerSVGElement;
    const figure = svg.closest('figure').id;
    const number = (name) => Number(frame.dataset[name]);
    const [left, right, top, bottom, begin, end, divisor] = ['left', 'right', 'top', 'bottom', 'begin', 'end', 'divisor'].map(number);
    let [from, to] = [begin, end];
    const spans = all('.mark[data-from]', svg).map((mark) => ({
      mark, rects: all('rect', mark), others: all('path', mark), from: Number(mark.dataset.from), to: Number(mark.dataset.to),
    }));
    const x = (time) => left + (time - from) / (to - from) * (right - left);
    const axis = document.createElementNS(svg.namespaceURI, 'g');
    const printed = all('text', svg).filter((text) => Number(text.getAttribute('y')) > bottom);
    const lines = all('path.stroke-grid', svg);
    const isInside = (text) => Number(text.getAttribute('x')) > left && Number(text.getAttribute('y')) > top && Number(text.getAttribute('y')) < bottom;
    const names = all('text', svg).filter(isInside);
    svg.append(axis);
    const ticks = () => {
      const raw = (to - from) / divisor / 8;
      const power = 10 ** Math.floor(Math.log10(raw));
      const step = [1, 2, 5, 10].map((digit) => digit * power).find((size) => size >= raw) * divisor;
      const found = [];
      for (let tick = Math.ceil(from / step) * step; tick <= to && found.length < 50; tick += step) found.push(tick);
      return found;
    };
    const draw = () => {
      const isAll = from === begin && to === end;
      // The last of the printed words is the name of the axis, which holds for every range.
      printed.slice(0, -1).forEach((text) => { text.style.display = isAll ? '' : 'none'; });
      names.forEach((text) => { text.style.display = isAll ? '' : 'none'; });
      lines.forEach((line) => { line.style.display = isAll ? '' : 'none'; });
      axis.replaceChildren(...(isAll ? [] : ticks().map((tick) => {
        const text = document.createElementNS(svg.namespaceURI, 'text');
        text.setAttribute('x', x(tick));
        text.setAttribute('y', bottom + 26);
        text.setAttribute('font-size', 22);
        text.setAttribute('text-anchor', 'middle');
        text.setAttribute('class', 'fill-muted');
        text.textContent = String(Number((tick / divisor).toPrecision(7)));
        return text;
      })));
      for (const span of spans) {
        const [a, b] = [Math.max(left, x(span.from)), Math.min(right, x(span.to))];
        span.mark.style.display = x(span.to) < left || x(span.from) > right ? 'none' : '';
        for (const rect of span.rects) {
          rect.setAttribute('x', a);
          rect.setAttribute('width', Math.max(1, b - a));
        }
        // Hatches and crosses keep their shape, and are shown where they were printed.
        for (const other of span.others) other.style.display = isAll || span.rects.length === 0 ? '' : 'none';
        if (span.rects.length === 0) span.mark.setAttribute('transform', `translate(${x(span.from) - (left + (span.from - begin) / (end - begin) * (right - left))} 0)`);
      }
    };
    const toTime = (event) => {
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse()).x;
      return from + (at - left) / (right - left) * (to - from);
    };
    const set = (a, b) => {
      const length = Math.min(b - a, end - begin);
      from = Math.min(Math.max(a, begin), end - length);
      to = from + length;
      if (from === begin && to === end) ranges.delete(figure);
      else ranges.set(figure, [from, to]);
      draw();
    };
    const zoom = (factor, middle) => set(middle - (middle - from) * factor, middle + (to - middle) * factor);
    svg.addEventListener('wheel', (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(event.deltaY < 0 ? 0.7 : 1 / 0.7, toTime(event));
    }, { passive: false });
    let dragged = null;
    svg.addEventListener('pointerdown', (event) => { if (event.button === 0 && (from !== begin || to !== end)) dragged = toTime(event); });
    addEventListener('pointermove', (event) => {
      if (dragged === null) return;
      const moved = dragged - toTime(event);
      set(from + moved, to + moved);
    });
    addEventListener('pointerup', () => { dragged = null; });
    svg.addEventListener('dblclick', () => set(begin, end));
    const tools = document.createElement('p');
    tools.className = 'zoom';
    const button = (name, act) => {
      const made = document.createElement('button');
      made.type = 'button';
      made.textContent = name;
      made.addEventListener('click', act);
      tools.append(made, ' ');
    };
    const middle = () => (from + to) / 2;
    button('Zoom in', () => zoom(0.5, middle()));
    button('Zoom out', () => zoom(2, middle()));
    button('Earlier', () => set(from - (to - from) / 2, to - (to - from) / 2));
    button('Later', () => set(from + (to - from) / 2, to + (to - from) / 2));
    button('All', () => set(begin, end));
    tools.append('Ctrl and the wheel zoom, a drag moves.');
    svg.closest('.picture').before(tools);
    // A page that is made again keeps the range that a reader has chosen.
    if (ranges.has(figure)) set(...ranges.get(figure));
  };
  const stretch = () => all('[data-plot=time]').forEach(stretchable);
  stretch();

  // Most figures are folded. A link to one opens it, and so does printing until the print is made.
  const folds = () => all('details.fold');
  const unfold = (figure) => { if (figure?.matches?.('figure')) figure.querySelector('.fold').open = true; };
  // A hash that is typed may be no valid encoding.
  const decoded = (text) => { try { return decodeURIComponent(text); } catch { return text; } };
  const unfoldTarget = (hash) => {
    const figure = document.getElementById(decoded(hash.slice(1)));
    unfold(figure);
    return figure;
  };
  unfoldTarget(location.hash);
  addEventListener('hashchange', () => unfoldTarget(location.hash)?.scrollIntoView());
  document.addEventListener('click', (event) => {
    const link = event.target.closest?.('a[href^="#"]');
    if (link) unfoldTarget(link.getAttribute('href'));
  });
  const unfoldAll = document.getElementById('unfold');
  unfoldAll.hidden = folds().every((fold) => fold.open);
  unfoldAll.addEventListener('click', () => { folds().forEach((fold) => { fold.open = true; }); unfoldAll.hidden = true; });
  let folded = [];
  addEventListener('beforeprint', () => {
    folded = folds().filter((fold) => !fold.open);
    folded.forEach((fold) => { fold.open = true; });
  });
  addEventListener('afterprint', () => { folded.forEach((fold) => { fold.open = false; }); });

  // Where there is room, the contents are beside the figures and open.
  const openContents = () => {
    const contents = document.querySelector('#contents details');
    if (matchMedia('(min-width: 75rem)').matches) contents.open = true;
  };
  openContents();

  // What a reader has changed on the page: what is open, sorted, filtered and scrolled, by the place of each element.
  const placesOf = (selector) => {
    const counts = new Map();
    return all(selector).map((element) => {
      const within = `${element.closest('[id]').id} ${element.className}`;
      counts.set(within, (counts.get(within) ?? 0) + 1);
      return [`${within} ${counts.get(within)}`, element];
    });
  };
  const CHANGED = {
    details: [(of) => of.open, (of, open) => { of.open = open; }],
    '[data-filter]': [(of) => of.value, (of, value) => { of.value = value; filter(of); }],
    th: [(of) => of.ariaSort, (of, order) => { if (order !== 'none') sort(of, order); }],
    '.table, .picture': [(of) => [of.scrollLeft, of.scrollTop], (of, [left, top]) => of.scrollTo({ left, top, behavior: 'instant' })],
    'button, input, summary': [(of) => of === document.activeElement, (of, hasFocus) => { if (hasFocus) of.focus({ preventScroll: true }); }],
  };
  const replaceBy = (fresh) => {
    const kept = Object.entries(CHANGED).map(([selector, [read]]) => [selector, new Map(placesOf(selector).map(([place, of]) => [place, read(of)]))]);
    const { scrollX, scrollY } = window;
    for (const id of ['contents', 'content']) document.getElementById(id).replaceWith(fresh.getElementById(id));
    stretch();
    for (const [selector, values] of kept) {
      const write = CHANGED[selector][1];
      for (const [place, of] of placesOf(selector)) if (values.has(place)) write(of, values.get(place));
    }
    scrollTo({ left: scrollX, top: scrollY, behavior: 'instant' });
  };

  // A run that goes on: the server says when its files are no longer in the state of which the page was made.
  if ('live' in document.body.dataset) {
    const status = document.getElementById('live');
    let known = document.body.dataset.live;
    const text = async (address) => {
      const answer = await fetch(address);
      if (!answer.ok) throw new Error(await answer.text());
      return answer.text();
    };
    const ask = async () => {
      let said = null;
      try {
        const state = await text('/state');
        if (state !== known) {
          const fresh = new DOMParser().parseFromString(await text('/'), 'text/html');
          replaceBy(fresh);
          known = fresh.body.dataset.live;
        }
        said = 'live';
      } catch (error) {
        // `fetch` has this error if there is no answer.
        said = error instanceof TypeError ? 'the server has ended; the page is as it was' : `the page is as it was: ${error.message}`;
      }
      // A reader of the screen hears what has changed, and not that nothing has.
      if (status.textContent !== said) status.textContent = said;
    };
    ask();
    setInterval(ask, 2000);
  }
})();
