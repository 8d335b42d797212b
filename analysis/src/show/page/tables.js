// Tables: sorted by their headings, filtered by a box, long names folded, details below their rows.

const ROWS_AT_FIRST = 20;
const FOLD_ABOVE = 46;

// Rows that have no details but tables as large as their own are one table with those: device and cause, as in CSV.
function flattened(table) {
  const inner = table.rows.flatMap((row) => row[table.columns.length] ?? []).find((below) => !below.detail);
  if (!inner) return table;
  const rows = [];
  let count = 0;
  // The sum over the rows below has their key, and a picture of its own.
  const keys = inner.columns.map(([key]) => key);
  const kept = table.columns.map((_, at) => at).filter((at) => !keys.includes(table.columns[at][0]));
  for (const row of table.rows) {
    const own = kept.map((at) => row[at]);
    const below = (row[table.columns.length] ?? []).find((one) => one.key === inner.key);
    count += below ? below.count : 0;
    for (const one of below?.rows ?? []) rows.push([...own, ...one]);
  }
  return { ...table, columns: [...kept.map((at) => table.columns[at]), ...inner.columns], rows, count };
}

// The tables of an answer, without those that hold a run's name alone.
function tablesOf(part) {
  return part.tables.flatMap((table) => {
    if (table.key === 'runs') return table.rows.flatMap((row) => row[table.columns.length] ?? []);
    return [table];
  });
}

function compare(one, other) {
  if (one === null || other === null) return (one === null) - (other === null);
  if (typeof one === 'number' && typeof other === 'number') return one - other;
  return String(one).localeCompare(String(other), 'en', { numeric: true });
}

class TableView {
  constructor(source, name) {
    this.table = flattened(source);
    this.name = name;
    this.wants = '';
    this.sorting = null;
    this.limit = ROWS_AT_FIRST;
    this.whole = false;
    this.opened = new Set();
    this.hasBelow = this.table.rows.some((row) => (row[this.table.columns.length] ?? []).some((below) => below.rows.length));
    this.isText = this.table.columns.map((_, at) => this.table.rows.some((row) => typeof row[at] === 'string'));
    this.head = make('thead');
    this.body = make('tbody');
    this.told = make('span', { class: 'soft', role: 'status' });
    this.more = make('button', { type: 'button', onclick: () => this.showAll() }, '');
    const title = this.table.title || name;
    const tools = make('div', { class: 'bar-of-tools' });
    if (this.table.rows.length > 1) {
      tools.append(make('input', {
        type: 'search', placeholder: 'Filter rows', 'aria-label': `Filter rows of ${title}`, oninput: (event) => this.filter(event.target.value),
      }));
    }
    if (this.table.columns.some(([, heading], at) => !heading && this.isFilled(at))) {
      tools.append(make('button', { type: 'button', 'aria-pressed': 'false', onclick: (event) => this.allColumns(event.target) }, 'All columns'));
    }
    tools.append(this.told, this.more);
    this.element = make('div', { class: 'table', 'data-table': this.table.key }, tools,
      make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': title },
        make('table', { 'aria-label': title }, this.head, this.body)));
    this.drawHead();
    this.draw();
  }

  isFilled(at) {
    return this.table.rows.some((row) => row[at] !== null && row[at] !== '');
  }

  shown() {
    return this.table.columns.map((_, at) => at)
      .filter((at) => this.whole || (this.table.columns[at][1] && (this.isFilled(at) || !this.table.rows.length)));
  }

  drawHead() {
    const row = make('tr', {}, this.hasBelow ? make('td', { class: 'open' }) : null);
    for (const at of this.shown()) {
      const [key, heading] = this.table.columns[at];
      const sort = this.sorting?.at === at ? (this.sorting.up ? 'ascending' : 'descending') : 'none';
      row.append(make('th', { scope: 'col', 'aria-sort': sort, 'data-key': key, class: this.isText[at] ? null : 'number' },
        make('button', { type: 'button', title: key, onclick: () => this.sort(at) }, heading || key)));
    }
    this.head.replaceChildren(row);
  }

  // Numbers begin with the greatest, texts with the first.
  sort(at) {
    const up = this.sorting?.at === at ? !this.sorting.up : this.isText[at];
    this.sorting = { at, up };
    const focused = this.head.contains(document.activeElement);
    this.drawHead();
    if (focused) this.head.querySelector(`th[data-key="${CSS.escape(this.table.columns[at][0])}"] button`)?.focus();
    this.draw();
  }

  filter(words) {
    this.wants = words.toLowerCase();
    this.draw();
  }

  allColumns(button) {
    this.whole = !this.whole;
    button.setAttribute('aria-pressed', String(this.whole));
    this.drawHead();
    this.draw();
  }

  showAll() {
    this.limit = this.limit === Infinity ? ROWS_AT_FIRST : Infinity;
    this.draw();
  }

  wanted() {
    const { columns, rows } = this.table;
    const holds = (row) => columns.some(([, , unit], at) => String(quantity(row[at], unit)).toLowerCase().includes(this.wants));
    const found = this.wants ? rows.filter(holds) : [...rows];
    if (this.sorting) {
      const { at, up } = this.sorting;
      // What is missing stands last in both directions.
      found.sort((one, other) => (one[at] === null || other[at] === null ? 1 : up ? 1 : -1) * compare(one[at], other[at]));
    }
    return found;
  }

  draw() {
    const found = this.wanted();
    const shown = found.slice(0, this.limit);
    this.body.replaceChildren(...shown.flatMap((row) => this.row(row)));
    const { rows, count } = this.table;
    let told = found.length === rows.length ? counted(rows.length, 'row') : `${found.length} of ${counted(rows.length, 'row')}`;
    if (shown.length < found.length) told += `, the first ${shown.length} shown`;
    if (count > rows.length) told += `; ${(count - rows.length).toLocaleString('en')} more are not on this page: rsys-report --json has them`;
    this.told.textContent = told;
    this.more.hidden = found.length <= ROWS_AT_FIRST;
    this.more.textContent = this.limit === Infinity ? 'Show fewer' : 'Show all';
  }

  row(row) {
    const below = (row[this.table.columns.length] ?? []).filter((table) => table.rows.length);
    const element = make('tr');
    if (this.hasBelow) element.append(this.opener(row, below, element));
    for (const at of this.shown()) element.append(this.cell(row[at], this.table.columns[at][2], this.isText[at]));
    return this.opened.has(row) ? [element, this.details(below)] : [element];
  }

  cell(value, unit, isText) {
    const text = quantity(value, unit);
    if (isText) return make('td', {}, text.length > FOLD_ABOVE ? folded(text) : text);
    const part = unit === 'share' && value !== null ? { '--part': `${100 * Math.min(1, Math.max(0, value))}%` } : {};
    return make('td', { class: unit === 'share' ? 'number share' : 'number', style: part }, text);
  }

  opener(row, below, element) {
    if (!below.length) return make('td', { class: 'open' });
    const button = make('button', { type: 'button', 'aria-expanded': String(this.opened.has(row)), 'aria-label': 'Details' },
      this.opened.has(row) ? '▾' : '▸');
    button.addEventListener('click', () => {
      const isOpen = !this.opened.delete(row);
      if (isOpen) {
        this.opened.add(row);
        element.after(this.details(below));
      } else {
        element.nextElementSibling.remove();
      }
      button.setAttribute('aria-expanded', String(isOpen));
      button.textContent = isOpen ? '▾' : '▸';
    });
    return make('td', { class: 'open' }, button);
  }

  details(below) {
    const views = below.map((table) => [table.title ? make('h3', {}, table.title) : null, new TableView(table, table.key).element]);
    return make('tr', { class: 'below' }, make('td', { colspan: this.shown().length + 1 }, ...views.flat()));
  }
}

// A long text: its begin, and the whole of it when it is clicked or Enter is pressed.
function folded(text) {
  const element = make('span', { class: 'fold', tabindex: 0, role: 'button', 'aria-expanded': 'false', title: text }, text);
  const toggle = () => element.setAttribute('aria-expanded', String(element.classList.toggle('is-open')));
  element.addEventListener('click', toggle);
  element.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' && event.key !== ' ') return;
    event.preventDefault();
    toggle();
  });
  return element;
}
