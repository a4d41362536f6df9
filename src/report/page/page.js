
(() => {
  'use strict';
  const run = JSON.parse(document.getElementById('run').textContent);
  const points = run.points;
  const summary = run.summary || {};
  const main = document.getElementById('main');
  const charts = [];  // functions that draw: run again when the colours change

  // ---- Words and figures ----

  const bytes = value => {
    if (value === null || value === undefined) return '–';
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    let unit = 0;
    for (; Math.abs(value) >= 1024 && unit < units.length - 1; ++unit) value /= 1024;
    return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
  };
  // Of an axis: as few digits as tell its marks apart.
  const byteMark = value => bytes(value).replace(/^[\d.]+/, () => {
    const unit = 1024 ** Math.max(0, Math.floor(Math.log2(Math.max(1, value)) / 10));
    return String(Number((value / unit).toFixed(2)));
  });
  const milliseconds = value => value === null || value === undefined ? '–'
    : value >= 100 ? `${value.toFixed(0)} ms` : `${value.toFixed(2)} ms`;
  const percent = share => `${(100 * share).toFixed(Math.abs(share) < 0.1 ? 1 : 0).replace(/^-(0\.0)$/, '$1')} %`;
  const figure4 = value => value === null || value === undefined ? '–' : Number(value).toPrecision(4);
  const median = values => {
    const sorted = values.filter(v => v !== null && v !== undefined).sort((a, b) => a - b);
    return sorted.length ? sorted[Math.floor(sorted.length / 2)] : null;
  };
  const most = values => values.reduce((a, b) => Math.max(a, b === null ? -Infinity : b), -Infinity);
  const last = values => values[values.length - 1];

  // ---- Elements. Text is always set as text: names in a run may hold anything. ----

  const element = (name, attributes = {}, ...children) => {
    const out = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) out.setAttribute(key, value);
    for (const child of children) out.append(child);
    return out;
  };

  // Columns: [heading, isNumber]. The first cell of a row is its heading.
  const table = (caption, columns, rows) => {
    const cell = (value, i, name) => element(name, {
      ...(columns[i][1] ? { class: 'number' } : {}), ...(name === 'th' ? { scope: 'row' } : {}) }, value);
    return element('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption },
      element('table', {}, element('caption', {}, caption),
        element('thead', {}, element('tr', {}, ...columns.map(([text, isNumber]) =>
          element('th', { scope: 'col', ...(isNumber ? { class: 'number' } : {}) }, text)))),
        element('tbody', {}, ...rows.map(row =>
          element('tr', {}, ...row.map((value, i) => cell(value, i, i === 0 ? 'th' : 'td')))))));
  };

  const section = (id, title, text) => {
    const out = element('section', { id, 'aria-labelledby': `${id}-title` }, element('h2', { id: `${id}-title` }, title));
    if (text) out.append(element('p', {}, text));
    main.append(out);
    document.getElementById('sections').append(element('li', {}, element('a', { href: `#${id}` }, title)));
    return out;
  };

  // Records come from files, and files may be damaged: what cannot be shown takes nothing else with it.
  const attempt = (place, show) => {
    const drawn = charts.length;
    try {
      show();
    } catch (error) {
      charts.length = drawn;
      place().append(element('p', { class: 'problem' }, `This could not be shown, since the record of the run is damaged here (${error.message}).`));
    }
  };
  const part = (id, title, show) => attempt(() => document.getElementById(id) || section(id, title), show);

  // A chart with what it shows as a sentence, and its table. `config` is asked again when colours change.
  const chart = (parent, { label, height, config, tables }) => {
    const canvas = element('canvas', { role: 'img', 'aria-label': label });
    const box = element('div', { class: 'canvas' }, canvas);
    if (height) box.style.height = `${height}px`;
    const out = element('figure', {}, box);
    if (tables) out.append(element('details', {}, element('summary', {}, 'Show as a table'), tables));
    parent.append(out);
    let drawn = null;
    const draw = () => {
      if (drawn) drawn.destroy();
      drawn = new Chart(canvas, config());
    };
    charts.push(draw);
    draw();
    return out;
  };

  // ---- What charts have in common ----

  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const faint = (hex, alpha) => hex + Math.round(alpha * 255).toString(16).padStart(2, '0');
  const kinds = ['state', 'inputs', 'activations kept', 'activations in use', 'gradients', 'workspace'];
  const kindColour = kind => colour(`kind${Math.max(0, kinds.indexOf(kind))}`);

  const axis = (title, format) => ({
    title: { display: true, text: title, color: colour('muted') },
    grid: { color: colour('line') },
    ticks: { color: colour('muted'), maxRotation: 0, ...(format ? { callback: format === bytes ? byteMark : format } : {}) },
    ...(format === bytes ? { afterDataLimits: roundBytes } : {}),
  });
  // Steps of 2^k bytes, so that labels are round in binary units.
  const roundBytes = scale => {
    let step = 1;
    while (scale.max / step > 6) step *= 2;
    scale.max = Math.ceil(scale.max / step) * step;
    scale.options.ticks.stepSize = step;
  };
  const options = (x, y, format, more = {}) => ({
    animation: false, maintainAspectRatio: false, parsing: false, normalized: true,
    interaction: { mode: 'index', intersect: false },
    elements: { point: { radius: 0, hitRadius: 8 }, line: { borderWidth: 2 } },
    plugins: {
      legend: { labels: { color: colour('text'), boxWidth: 22, boxHeight: 10, usePointStyle: true } },
      tooltip: { callbacks: { label: c => `${c.dataset.label}: ${format(c.parsed.y)}` } },
    },
    scales: { x: { type: 'linear', ...axis(x) }, y: { beginAtZero: true, ...axis(y, format) } },
    ...more,
  });
  const line = (label, name, data, more = {}) => ({
    label, data, borderColor: colour(name), backgroundColor: colour(name), spanGaps: true, pointStyle: 'line', ...more });
  const along = values => values.map((y, i) => ({ x: points.step[i], y })).filter(p => p.y !== null);

  // Rows of a table over the steps: the first, the last, and some between.
  const some = count => {
    const n = points.step.length;
    const chosen = new Set();
    for (let i = 0; i < Math.min(count, n); ++i) chosen.add(Math.round(i * (n - 1) / Math.max(1, Math.min(count, n) - 1)));
    return [...chosen];
  };
  const stepTable = (caption, columns) => {
    const rows = some(40).map(i => [String(points.step[i]), ...columns.map(([, value]) => value(i))]);
    const every = points.step.length > rows.length ? ` (${rows.length} of ${run.steps} steps)` : '';
    return table(caption + every, [['step', true], ...columns.map(([name]) => [name, true])], rows);
  };

  // Plans come back when a shape or a budget does, so the newest one is not always the one that ran last.
  const ranLast = plans => plans.filter(p => p.id === last(points.plan)).pop();
  const storeAllBytes = () => summary.store_all_bytes ?? (run.plans.length ? last(run.plans).plan.store_all_bytes : undefined);
  const isRounding = () => (Array.isArray(summary.stored) && summary.stored.some(t => t && t.level !== 'fp32')) || ['bf16', 'int8', 'int4'].includes(summary.policy) ||
    run.plans.some(p => Array.isArray(p.plan.layers) && p.plan.layers.some(l => l && l.precision && l.precision !== 'f32'));
  // What only the run itself can reckon, at its end, when it was asked to.
  const howToAsk = () => run.summary
    ? 'The run was not asked for it: neap train --report FILE.html reckons it when the run ends.'
    : 'It is reckoned when a run with --report ends, and the end of this one is missing.';

  // ---- The head of the page ----

  const describeHead = () => {
    const name = summary.model ? `${summary.model}, ${summary.policy}` : 'A training run';
    document.getElementById('title').textContent = name;
    document.title = `Neap: ${name}`;
    const lead = document.getElementById('lead');
    const peak = summary.peak_bytes ?? most(points.peak_bytes);
    if (summary.store_all_bytes) {
      const saved = 1 - peak / summary.store_all_bytes;
      lead.textContent = saved > 0.0005
        ? `${summary.steps} steps at batch ${summary.batch} within ${bytes(peak)}: ${percent(saved)} less than storing everything takes (${bytes(summary.store_all_bytes)}).`
        : `${summary.steps} steps at batch ${summary.batch} with everything stored: ${bytes(peak)}.`;
    } else if (points.step.length) {
      lead.textContent = `${run.steps} steps, at most ${bytes(peak)}.`;
    }
    const problem = document.getElementById('problem');
    problem.textContent = run.problem;
    problem.hidden = !run.problem;
    const facts = document.getElementById('facts');
    const fact = (term, value, small) => {
      const dd = element('dd', value.length > 13 ? { class: 'long' } : {}, value);
      if (small) dd.append(element('span', { class: 'small' }, small));
      facts.append(element('div', {}, element('dt', {}, term), dd));
    };
    fact('Peak', bytes(peak), summary.violations === 0 ? 'never above the budget' : summary.violations ? `${summary.violations} steps above the budget` : '');
    if (points.step.length) fact('Budget', last(points.budget_bytes) === null ? 'none' : bytes(last(points.budget_bytes)), 'at the end');
    if (summary.min_budget_bytes) fact('Minimum', bytes(summary.min_budget_bytes), 'that would do');
    if (summary.state_bytes) fact('State', bytes(summary.state_bytes), 'weights and optimizer');
    fact('Step time', milliseconds(summary.median_step_ms ?? median(points.step_ms)), 'median');
    fact('Loss', figure4(last(points.loss.filter(v => v !== null))), 'last');
    const accurate = run.evals.filter(e => e.accuracy !== null && e.accuracy !== undefined);
    if (accurate.length) fact('Accuracy', `${(100 * last(accurate).accuracy).toFixed(2)} %`, `${last(accurate).samples} samples`);
    if (summary.steering_share !== undefined) fact('Steering', `${(100 * summary.steering_share).toFixed(3)} %`, 'of the time trained');
    if (summary.weights_hash) fact('Weights', summary.weights_hash, 'hash of their bits');
  };

  // ---- Memory over the step ----

  const describeMemory = () => {
    const plans = run.plans.filter(p => p.plan.memory && Array.isArray(p.plan.memory.at) && p.plan.memory.at.length && p.plan.memory.kinds);
    if (!plans.length) {
      section('memory', 'Memory over the step', 'The run holds no plan: memory by kind is not known.');
      return;
    }
    const here = section('memory', 'Memory over the step',
      'What lies in the arena from the first instruction of a step to the last, by kind, against the budget.');
    let chosen = ranLast(plans) || last(plans);
    const leftOut = run.plans_seen - run.plans.length;
    if (leftOut > 0) here.append(element('p', {}, `${leftOut} of the run's ${run.plans_seen} plans are left out: the page holds the first and the last ones.`));
    const body = element('div');
    if (plans.length > 1) {
      const select = element('select', { id: 'which-plan' }, ...plans.map((p, i) =>
        element('option', { value: String(i) }, `Plan ${p.id}, from step ${p.step}${p.length ? `, length ${p.length}` : ''}`)));
      select.value = String(plans.indexOf(chosen));
      select.addEventListener('change', () => { chosen = plans[Number(select.value)]; show(); });
      here.append(element('div', { class: 'row' }, element('label', { for: 'which-plan' }, 'Plan'), select));
    }
    here.append(body);
    let drawer = null;
    const draw = () => {
      const { memory, budget_bytes: budget, peak_bytes: peak } = chosen.plan;
      const names = Object.keys(memory.kinds);
      const totals = memory.at.map((_, i) => names.reduce((sum, n) => sum + memory.kinds[n][i], 0));
      const fullest = totals.indexOf(most(totals));
      const turn = {
        id: 'turn',
        afterDatasetsDraw: c => {
          const x = c.scales.x.getPixelForValue(memory.backward_begins);
          const { top, bottom } = c.chartArea;
          c.ctx.save();
          c.ctx.strokeStyle = c.ctx.fillStyle = colour('muted');
          c.ctx.setLineDash([2, 4]);
          c.ctx.beginPath(); c.ctx.moveTo(x, top); c.ctx.lineTo(x, bottom); c.ctx.stroke();
          c.ctx.fillStyle = colour('text');
          c.ctx.textAlign = x > (c.chartArea.left + c.chartArea.right) / 2 ? 'right' : 'left';
          c.ctx.font = '12px system-ui, sans-serif';
          c.ctx.fillText('\u2002backward begins\u2002', x, bottom - 8);
          c.ctx.restore();
        },
      };
      const config = () => {
        const datasets = names.map((name, i) => ({
          label: name, stack: 'kinds', pointStyle: 'rect', fill: i === 0 ? 'origin' : '-1', borderColor: kindColour(name), borderWidth: 1,
          backgroundColor: faint(kindColour(name), 0.75), data: memory.at.map((x, k) => ({ x, y: memory.kinds[name][k] })) }));
        if (budget !== null && budget !== undefined) {
          datasets.push(line('budget', 'budget', memory.at.map(x => ({ x, y: budget })), { stack: 'budget', borderDash: [6, 4], fill: false }));
        }
        const all = options('instruction', 'bytes', bytes);
        all.scales.y.stacked = true;
        all.scales.x.max = memory.instructions - 1;
        return { type: 'line', data: { datasets }, options: all, plugins: [turn] };
      };
      const rows = names.map(name => [name, bytes(memory.kinds[name][fullest]), bytes(most(memory.kinds[name])),
        percent(memory.kinds[name][fullest] / totals[fullest])]);
      rows.push(['together', bytes(totals[fullest]), bytes(totals[fullest]), '100 %']);
      const label = `Memory over the step: at most ${bytes(peak)}${budget ? ` of a budget of ${bytes(budget)}` : ''}, reached in layer ${memory.peak_layer}; of this ${names.map(n => `${bytes(memory.kinds[n][fullest])} ${n}`).join(', ')}.`;
      body.replaceChildren(element('p', {}, label));
      chart(body, { label, height: 360, config,
        tables: table('By kind, at the fullest moment and at most', [['kind', false], ['at the peak', true], ['at most', true], ['share of the peak', true]], rows) });
      drawer = charts[charts.length - 1];
    };
    const show = () => {
      if (drawer) charts.splice(charts.indexOf(drawer), 1);
      drawer = null;
      body.replaceChildren();
      attempt(() => body, draw);
    };
    show();
  };

  // ---- Layers ----

  const describeLayers = () => {
    const known = ranLast(run.plans);
    const shown = known || (run.plans.length ? last(run.plans) : null);
    const plan = shown ? shown.plan : null;
    if (!plan || !Array.isArray(plan.layers)) return;
    const here = section('layers', 'What happens to each layer',
      `${known ? 'The plan that ran last' : 'The newest plan that the page holds; the one that ran last is not among them'}: plan ${shown.id}, first used at step ${shown.step}${shown.length ? ` for length ${shown.length}` : ''}. Freed is what storing everything would keep in the arena beyond this; the price is time a step.`);
    for (const text of Array.isArray(summary.advice) ? summary.advice : []) here.append(element('p', {}, String(text)));
    if (last(points.budget_bytes) !== null && !('advice' in summary)) {
      here.append(element('p', { id: 'no-advice' }, `What more bytes would bring, and which sizes would fit, is not known. ${howToAsk()}`));
    }
    const layers = plan.layers;
    const freed = layers.reduce((sum, l) => sum + (l.freed_bytes || 0), 0);
    const added = layers.reduce((sum, l) => sum + (l.added_ms || 0), 0);
    const label = `Bytes kept and freed by layer: ${layers.length} layers, ${bytes(freed)} freed for ${milliseconds(added)} a step.`;
    here.append(element('p', {}, label));
    here.append(table('Each layer: what becomes of it, and why',
      [['layer', false], ['what', false], ['kept', true], ['freed', true], ['price', true], ['precision', false], ['why', false]],
      layers.map(l => [l.name, element('span', { class: 'tag' }, l.action), bytes(l.kept_bytes), bytes(l.freed_bytes || 0),
        l.added_ms > 0 ? milliseconds(l.added_ms) : '–', l.precision, l.reason])));
    if (layers.length > 80) return;
    chart(here, { label, height: 90 + 22 * layers.length, config: () => {
      const all = options('bytes', '', bytes, { indexAxis: 'y' });
      all.parsing = true;
      all.normalized = false;
      all.plugins.tooltip.callbacks.label = c => `${c.dataset.label}: ${bytes(c.parsed.x)}`;
      all.scales = { x: { stacked: true, ...axis('bytes', bytes) }, y: { stacked: true, ...axis(''), type: 'category' } };
      all.scales.y.ticks.autoSkip = false;
      const bar = (text, name, value) => ({ label: text, data: layers.map(value), backgroundColor: colour(name), borderColor: colour(name), pointStyle: 'rect' });
      return { type: 'bar', options: all, data: { labels: layers.map(l => l.name),
        datasets: [bar('kept', 'kind2', l => l.kept_bytes), bar('freed', 'kind3', l => l.freed_bytes || 0)] } };
    } });
  };

  // ---- Over the run ----

  const describeChanges = () => {
    const here = section('changes', 'Changes over time', isRounding()
      ? 'Budgets and plans may change between two steps. This run may store tensors in fewer bits: which ones depends on budgets and plans, and the bits of the result with it.'
      : 'Budgets and plans may change between two steps; with everything stored exactly and the default --numerics fixed, the bits of the result do not.');
    const budgets = points.budget_bytes.filter(b => b !== null);
    const label = `Peak and budget by step: the peak is at most ${bytes(most(points.peak_bytes))}${budgets.length ? `, the budget lies between ${bytes(Math.min(...budgets))} and ${bytes(most(budgets))}` : ', without a budget'}.`;
    chart(here, { label, height: 260, config: () => {
      const datasets = [line('peak', 'kind2', along(points.peak_bytes), { stepped: 'before', fill: 'origin', backgroundColor: faint(colour('kind2'), 0.2) })];
      if (budgets.length) datasets.push(line('budget', 'budget', along(points.budget_bytes), { stepped: 'before', borderDash: [6, 4] }));
      return { type: 'line', data: { datasets }, options: options('step', 'bytes', bytes) };
    }, tables: stepTable('Peak and budget', [['peak', i => bytes(points.peak_bytes[i])], ['budget', i => bytes(points.budget_bytes[i])], ['plan', i => String(points.plan[i])]]) });
    if (run.changes.length) {
      here.append(table('What changed, and when', [['step', true], ['what', false], ['how', false]],
        run.changes.map(c => [String(c.step), c.kind, c.what])));
      const leftOut = run.changes_seen - run.changes.length;
      if (leftOut > 0) here.append(element('p', {}, `${leftOut} later changes are left out: the page holds the first ${run.changes.length}.`));
    } else {
      here.append(element('p', {}, 'One plan and one budget for the whole run.'));
    }
  };

  const describeLoss = () => {
    const here = section('loss', 'Loss');
    const known = points.loss.filter(v => v !== null);
    const lost = points.loss.length - known.length;
    const label = `Loss by step: from ${figure4(known[0])} to ${figure4(last(known))}${lost ? `; at ${lost} places it was no number` : ''}.`;
    here.append(element('p', {}, label));
    const evals = run.evals.filter(e => typeof e.loss === 'number');
    chart(here, { label, height: 280, config: () => {
      const datasets = [line('training', 'kind2', along(points.loss))];
      if (evals.length) datasets.push(line('evaluation', 'kind4', evals.map(e => ({ x: e.step, y: e.loss })), { showLine: evals.length > 1, pointRadius: 5, pointStyle: 'circle', borderDash: [4, 4] }));
      return { type: 'line', data: { datasets }, options: options('step', 'loss', value => String(Number(Number(value).toPrecision(4)))) };
    }, tables: stepTable('Loss', [['loss', i => figure4(points.loss[i])]]) });
    if (evals.length) {
      here.append(table('Evaluations', [['step', true], ['loss', true], ['accuracy', true], ['samples', true]],
        evals.map(e => [String(e.step), figure4(e.loss), typeof e.accuracy === 'number' ? `${(100 * e.accuracy).toFixed(2)} %` : '–', String(e.samples)])));
    }
    const leftOut = run.evals_seen - run.evals.length;
    if (leftOut > 0) here.append(element('p', {}, `${leftOut} later evaluations are left out.`));
  };

  // Each plan's prediction beside what its steps took. A plan's first step pays for cold memory.
  const byPlan = () => {
    const out = new Map();
    points.plan.forEach((plan, i) => {
      if (!out.has(plan)) out.set(plan, { first: points.step[i], measured: [], predicted: [] });
      if (points.predicted_ms[i] === null) return;
      out.get(plan).measured.push(points.step_ms[i]);
      out.get(plan).predicted.push(points.predicted_ms[i]);
    });
    return [...out].map(([plan, p]) => ({ plan, first: p.first, steps: p.measured.length, measured: median(p.measured), predicted: median(p.predicted) }));
  };

  const whyNothingIsPredicted = () => {
    const all = storeAllBytes();
    const budgets = points.budget_bytes.filter(b => b !== null);
    if (all > 0 && budgets.some(b => b < all)) return '; nothing was predicted, since the run ended before its calls were timed';
    return !budgets.length || all > 0 ? '; nothing was predicted, since everything fits' : '; nothing was predicted';
  };

  const describeTime = () => {
    const here = section('time', 'Step time: simulator against measurement',
      'The simulator predicts a step from the measured time of each call; the line beside it is what the steps took.');
    const plans = byPlan();
    const judged = plans.filter(p => p.predicted !== null && p.measured !== null);
    const error = p => p.predicted / p.measured - 1;
    const label = `Step time: ${milliseconds(median(points.step_ms))} in the middle${judged.length ? `; the simulator is ${percent(Math.abs(error(last(judged))))} ${error(last(judged)) < 0 ? 'below' : 'above'} the measurement for the last plan` : whyNothingIsPredicted()}.`;
    here.append(element('p', {}, label));
    // One step that waited for a plan or for another program would flatten all others.
    const slowest = most(points.step_ms);
    const highest = 3 * median(points.step_ms);
    if (slowest > highest) {
      here.append(element('p', {}, `The slowest step took ${milliseconds(slowest)}; the chart ends at three times the median.`));
    }
    chart(here, { label, height: 280, config: () => {
      const datasets = [line('measured', 'kind2', along(points.step_ms))];
      if (judged.length) datasets.push(line('simulated', 'kind4', along(points.predicted_ms), { borderDash: [6, 4] }));
      if (most(points.recomputed_ms) > 0) datasets.push(line('of it computed again', 'kind3', along(points.recomputed_ms), { borderDash: [2, 3] }));
      const all = options('step', 'milliseconds a step', milliseconds);
      if (slowest > highest) all.scales.y.max = Number(highest.toPrecision(2));
      return { type: 'line', data: { datasets }, options: all };
    }, tables: stepTable('Step time', [['measured', i => milliseconds(points.step_ms[i])], ['simulated', i => milliseconds(points.predicted_ms[i])], ['computed again', i => milliseconds(points.recomputed_ms[i])]]) });
    if (judged.length) {
      here.append(table('By plan, medians', [['plan', true], ['from step', true], ['measured', true], ['simulated', true], ['error', true]],
        judged.map(p => [String(p.plan), String(p.first), milliseconds(p.measured), milliseconds(p.predicted), percent(error(p))])));
    }
  };

  const describeRegret = () => {
    const oracle = summary.oracle_step_ms;
    const ran = summary.predicted_step_ms;
    const text = typeof oracle === 'number' && ran > 0
      ? `The exact plan for the last budget would take ${milliseconds(oracle)} a step, the plan that ran last takes ${milliseconds(ran)}; both by the simulator, with the times measured in this run. Regret: ${percent(ran / oracle - 1)}.`
      : summary.store_all_bytes && summary.peak_bytes >= summary.store_all_bytes
        ? 'Everything is stored: there is nothing to regret.'
        : 'advice' in summary
          ? 'Not known for this run: a budget below store-all has to be set, and the run has to last until its calls are timed.'
          : `Not known. ${howToAsk()}`;
    section('regret', 'Regret against the oracle', text);
  };

  const describeSpill = () => {
    const total = points.spilled_bytes.reduce((sum, value, i) => sum + (value || 0) * points.count[i], 0);
    if (!(total > 0)) {
      section('spill', 'Spill traffic', 'Nothing left the arena for RAM or disk.');
      return;
    }
    const here = section('spill', 'Spill traffic', 'What left the arena for RAM or disk and came back, and how long calls waited for it.');
    const label = `Spilled bytes by step: ${bytes(total)} altogether; calls waited ${milliseconds(median(points.stalled_ms))} a step in the middle.`;
    here.append(element('p', {}, label));
    chart(here, { label, height: 260, config: () => {
      const all = options('step', 'bytes a step', bytes);
      all.scales.wait = { position: 'right', beginAtZero: true, ...axis('waited, ms'), grid: { drawOnChartArea: false } };
      all.plugins.tooltip.callbacks.label = c => `${c.dataset.label}: ${c.dataset.yAxisID ? milliseconds(c.parsed.y) : bytes(c.parsed.y)}`;
      return { type: 'line', options: all, data: { datasets: [
        line('spilled', 'kind2', along(points.spilled_bytes), { stepped: 'before' }),
        line('waited', 'kind4', along(points.stalled_ms), { yAxisID: 'wait', borderDash: [4, 4] })] } };
    }, tables: stepTable('Spill traffic', [['spilled', i => bytes(points.spilled_bytes[i])], ['waited', i => milliseconds(points.stalled_ms[i])]]) });
  };

  // Objects and lists of them become tables of their own; what lies deeper than that stays JSON.
  const isNested = value => value !== null && typeof value === 'object' && !(Array.isArray(value) && value.every(v => v === null || typeof v !== 'object'));
  const plain = value => value === null || value === undefined ? '–'
    : isNested(value) ? JSON.stringify(value)
    : Array.isArray(value) ? value.map(plain).join(', ') || 'none'
    : typeof value === 'number' ? String(Number(value.toPrecision(6))) : String(value);
  const listTable = (name, list) => {
    const kMostRows = 200;
    const rows = list.slice(0, kMostRows).map(row => isNested(row) && !Array.isArray(row) ? row : { value: row });
    const columns = [...new Set(rows.flatMap(row => Object.keys(row)))];
    const caption = list.length > kMostRows ? `${name}: the first ${kMostRows} of ${list.length}` : name;
    return table(caption, columns.map(c => [c, rows.every(row => typeof row[c] === 'number')]), rows.map(row => columns.map(c => plain(row[c]))));
  };
  const nestedTables = (name, value) => {
    if (Array.isArray(value)) return [listTable(name, value)];
    const fields = Object.keys(value);
    const flat = fields.filter(key => !isNested(value[key]));
    const own = flat.length ? [table(name, [['field', false], ['value', true]], flat.map(key => [key, plain(value[key])]))] : [];
    return own.concat(...fields.filter(key => isNested(value[key])).map(key => nestedTables(`${name}: ${key}`, value[key])));
  };
  const meanings = {
    recurrent: 'recurrent: the gear of each recurrent layer', stored: 'stored: tensors that may be kept in fewer bits',
    tuning: 'tuning: what was tried, and the strategy of each subgraph', loops: 'loops: how the loops of calls are cut' };

  const describeAll = () => {
    const names = Object.keys(summary).filter(key => key !== 'summary' && key !== 'advice');
    if (!names.length) return;
    const here = section('summary', 'Everything the run says of itself');
    const flat = names.filter(key => !isNested(summary[key]));
    here.append(element('details', {}, element('summary', {}, 'Show as a table'),
      table('The summary, as in --json', [['field', false], ['value', true]],
        flat.map(key => [key, typeof summary[key] === 'number' ? String(summary[key]) : plain(summary[key])]))));
    for (const key of names.filter(name => isNested(summary[name]))) {
      const title = Object.hasOwn(meanings, key) ? meanings[key] : key;
      here.append(element('details', {}, element('summary', {}, title), ...nestedTables(key, summary[key])));
    }
  };

  // ---- Light and dark: the system's choice until the reader makes one ----

  const prefersDark = window.matchMedia('(prefers-color-scheme: dark)');
  const button = document.getElementById('theme');
  let chosenTheme = null;
  const applyTheme = () => {
    const isDark = chosenTheme === null ? prefersDark.matches : chosenTheme === 'dark';
    document.documentElement.dataset.theme = isDark ? 'dark' : 'light';
    button.setAttribute('aria-pressed', String(isDark));
    for (const draw of charts) draw();
  };
  button.addEventListener('click', () => {
    chosenTheme = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
    applyTheme();
  });
  prefersDark.addEventListener('change', applyTheme);

  applyTheme();
  part('head', 'The run in figures', describeHead);
  if (points.step.length) {
    part('memory', 'Memory over the step', describeMemory);
    part('layers', 'What happens to each layer', describeLayers);
    part('changes', 'Changes over time', describeChanges);
    part('loss', 'Loss', describeLoss);
    part('time', 'Step time', describeTime);
    part('regret', 'Regret against the oracle', describeRegret);
    part('spill', 'Spill traffic', describeSpill);
  }
  part('summary', 'Everything the run says of itself', describeAll);
  document.documentElement.dataset.ready = 'true';
})();
