// Draws each chart from the table that has its data, which is complete without it.
"use strict";
(() => {
  if (typeof uPlot !== "function") return;
  const number = new Intl.NumberFormat("en-US"); // as the server groups digits
  const format = (options) => {
    const f = new Intl.DateTimeFormat("en-GB", {...options, timeZone: "UTC"});
    return (day) => f.format(new Date(day * 864e5));
  };
  const dayAndMonth = format({day: "numeric", month: "short"}), monthAndYear = format({month: "short", year: "numeric"});
  const monthOf = (n) => Date.UTC(1970, n, 1) / 864e5; // the first day of a month that is counted from 1970 on
  const wholeDay = (day) => new Date(day * 864e5).toISOString().slice(0, 10);
  const font = "12px system-ui, sans-serif";
  const noData = "–";
  const maxBar = 40, labelWidth = 62; // pixels

  // read returns the data of a chart: x and columns in ascending order of days, or in the order of the table.
  const read = (chart) => {
    const table = document.getElementById(chart.dataset.table);
    const rows = [...table.tBodies[0].rows].filter((row) => row.dataset.y !== undefined);
    if (rows[0]?.dataset.x !== undefined) rows.reverse();
    const place = (x) => chart.dataset.unit === "month" ? (x.slice(0, 4) - 1970) * 12 + Number(x.slice(5)) - 1 : Number(x);
    const unit = 10 ** (chart.dataset.decimals ?? 0);
    const values = rows.map((row) => row.dataset.y.trim().split(" ").map((n) => n / unit));
    return {
      x: rows.map((row, i) => place(row.dataset.x ?? i)),
      columns: values[0].map((_, column) => values.map((row) => row[column])),
      names: rows.map((row) => row.cells[0].firstElementChild?.textContent ?? row.cells[0].textContent),
      titles: [...table.tHead.rows[0].cells].map((cell) => cell.textContent),
    };
  };

  // ticks returns the days to label: every so many days back from the last one, or the first days of months.
  const ticks = (u, _, min, max) => {
    const first = Math.ceil(min), last = Math.floor(max);
    const most = Math.max(2, Math.floor(u.bbox.width / uPlot.pxRatio / labelWidth)), days = last - first + 1;
    const found = [];
    if (days <= 120) {
      const step = [1, 2, 7, 14, 28, 56].find((step) => (days - 1) / step < most) ?? 56;
      for (let day = last; day >= first; day -= step) found.unshift(day);
      return found;
    }
    const step = [1, 2, 3, 6].find((step) => days / 30 / step <= most) ?? 6;
    const date = new Date(last * 864e5);
    for (let month = date.getUTCMonth(); ; month -= step) {
      const day = Date.UTC(date.getUTCFullYear(), month, 1) / 864e5;
      if (day < first) return found;
      found.unshift(day);
    }
  };

  const monthTicks = (u, _, min, max) => {
    const first = Math.ceil(min), last = Math.floor(max);
    const most = Math.max(2, Math.floor(u.bbox.width / uPlot.pxRatio / labelWidth));
    const step = [1, 2, 3, 6, 12].find((step) => (last - first) / step < most) ?? 12;
    const found = [];
    for (let month = last; month >= first; month -= step) found.unshift(month);
    return found;
  };

  const width = (u, texts) => {
    u.ctx.save();
    u.ctx.font = font;
    const most = Math.max(0, ...texts.map((text) => u.ctx.measureText(text).width));
    u.ctx.restore();
    return Math.ceil(most);
  };
  const shortened = (u, text, most) => {
    if (width(u, [text]) <= most) return text;
    let n = text.length;
    while (n > 1 && width(u, [text.slice(0, n) + "…"]) > most) n--;
    return text.slice(0, n).trimEnd() + "…";
  };
  const fromZero = (u, min, max) => [Math.min(0, min * 1.1), Math.max(1, max * 1.1)];
  const whole = [];
  for (let power = 1; power < 1e15; power *= 10) whole.push(power, 2 * power, 5 * power);

  const draw = (chart) => {
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    const {x, columns, names, titles} = read(chart);
    const kind = chart.dataset.chart, byMonth = chart.dataset.unit === "month";
    const decimals = Number(chart.dataset.decimals ?? 0);
    const exact = new Intl.NumberFormat("en-US", {minimumFractionDigits: decimals, maximumFractionDigits: decimals});
    const bars = uPlot.paths.bars({size: [0.7, maxBar]});
    const axis = {font, size: 28, stroke: color("--soft"), grid: {stroke: color("--line"), width: 1}, ticks: {show: false}, gap: 6};
    const options = {
      width: chart.clientWidth, height: 220, padding: [12, 24, 0, 0],
      cursor: {drag: {x: false, y: false, setScale: false}, y: false},
      legend: {markers: {width: 0, fill: (u, i) => u.series[i].color}},
      scales: {x: {time: false, range: [x[0] - 0.5, x.at(-1) + 0.5]}, y: {range: fromZero}}, // uPlot would widen a single day
      axes: [
        {...axis, grid: {show: false}, splits: byMonth ? monthTicks : ticks, values: (u, all) => all.map(byMonth ? (n) => monthAndYear(monthOf(n)) : x.length > 120 ? monthAndYear : dayAndMonth)},
        {...axis, incrs: whole, space: 24, values: (u, all) => all.map((n) => number.format(n)), size: (u, values) => width(u, values ?? []) + 12},
      ],
      hooks: {setCursor: [(u) => u.root.classList.toggle("pointed", u.cursor.idx != null && u.cursor.left >= 0)]},
      series: [{label: titles[0], value: (u, n) => n == null ? noData : byMonth ? wholeDay(monthOf(n)).slice(0, 7) : wholeDay(n)}],
    };
    const add = (title, values, ink, more) => options.series.push({
      label: title, color: ink, value: (u, _, __, i) => i == null ? noData : exact.format(values[i]), points: {show: false}, ...more,
    });
    let data = [x, ...columns];
    const ink = [color("--chart1"), color("--chart2")];
    switch (kind) {
    case "balance": {
      const [balance, granted] = columns;
      add(titles[1], balance, ink[0], {stroke: ink[0], width: 2, fill: color("--glow"), points: {show: x.length === 1, fill: ink[0], size: 8}});
      add(titles[2], granted, ink[1], {stroke: ink[1], paths: () => null, points: {show: true, size: 9, fill: ink[1], stroke: color("--paper"), width: 2}});
      data = [x, balance, balance.map((n, i) => granted[i] ? n : null)];
      break;
    }
    case "stack": { // the sum is drawn first, and the lower part over it
      const [lower, upper] = columns;
      add(titles[2], upper, ink[1], {fill: ink[1], width: 0, paths: bars});
      add(titles[1], lower, ink[0], {fill: ink[0], width: 0, paths: bars});
      data = [x, lower.map((n, i) => n + upper[i]), lower];
      break;
    }
    case "bars": {
      const column = Number(chart.dataset.column);
      options.height = 150;
      add(titles[column + 1], columns[column], ink[column % 2], {fill: ink[column % 2], width: 0, paths: bars});
      data = [x, columns[column]];
      break;
    }
    case "rows":
      options.height = 32 + 34 * x.length;
      options.padding = [0, 8, 0, 0];
      options.legend = {show: false};
      options.cursor = {show: false};
      options.scales = {
        x: {time: false, ori: 1, dir: -1, range: [-0.5, x.length - 0.5]},
        y: {ori: 0, dir: 1, range: (u, min, max) => [0, Math.max(1, max * 1.2)]},
      };
      options.axes = [
        {...axis, stroke: color("--ink"), side: 3, grid: {show: false}, splits: () => x, values: (u, rows) => rows.map((i) => shortened(u, names[i], chart.clientWidth * 0.35)),
          size: (u, values) => width(u, values ?? []) + 12},
        {...axis, side: 2, incrs: whole, space: 90, values: (u, all) => all.map((n) => number.format(n))},
      ];
      add("", columns[0], ink[0], {fill: ink[0], width: 0, paths: bars});
      options.hooks = {draw: [(u) => {
        u.ctx.save();
        u.ctx.font = font.replace("12", 12 * uPlot.pxRatio);
        u.ctx.fillStyle = color("--ink");
        u.ctx.textBaseline = "middle";
        u.ctx.textAlign = "left";
        columns[0].forEach((n, i) => u.ctx.fillText(number.format(n), u.valToPos(n, "y", true) + 6 * uPlot.pxRatio, u.valToPos(i, "x", true)));
        u.ctx.restore();
      }]};
    }
    return new uPlot(options, data, chart);
  };

  const drawn = new Map();
  const redraw = (chart) => {
    drawn.get(chart)?.destroy();
    drawn.set(chart, draw(chart));
  };
  const resized = new ResizeObserver((entries) => {
    for (const {target} of entries) if (drawn.get(target)?.width !== target.clientWidth) redraw(target);
  });
  const show = () => {
    for (const chart of drawn.keys()) {
      if (chart.isConnected) continue;
      resized.unobserve(chart);
      drawn.get(chart).destroy();
      drawn.delete(chart);
    }
    for (const chart of document.querySelectorAll(".chart[hidden]")) {
      chart.hidden = false;
      resized.observe(chart); // which draws it, too
    }
  };
  show();
  document.addEventListener("htmx:after:swap", show);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => [...drawn.keys()].forEach(redraw));
})();
