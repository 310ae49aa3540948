// The head, the budget, findings, the device's use, and everything that is a list of facts.

function drawHead({ profile }) {
  const { program, step, method, timeline } = profile;
  const device = profile.device.find((f) => /^(device|gpu|adapter|processor|cpu)$/i.test(f.name)) || profile.device[0];
  document.getElementById('identity').append([program.version && `version ${program.version}`, program.commit && `commit ${program.commit.slice(0, 12)}`,
    device && device.value, program.started && program.started.replace('T', ' ').replace(/(\.\d+)?Z$/, ' UTC')].filter(Boolean).join('  ·  '));
  const unexplained = profile.budget.rows.find((r) => r.phase === 'unexplained');
  const cost = method.overhead;
  readings([
    ['Median step', time(step.median), step.count > 1 ? `p95 ${timeText(step.p95)}, std ${timeText(step.std)}` : 'one step only'],
    ['Steps a second', step.mean > 0 ? [brief(1e9 / step.mean), 'it/s'] : ['–', ''], 'by the mean step'],
    ['Measured', [fixed(method.measured_steps, 0), method.measured_steps === 1 ? 'step' : 'steps'], `after ${fixed(method.warm_up_steps, 0)} to warm up`],
    timeline && ['Device busy', [fixed(timeline.busy * 100, 1), '%'], 'of the measured window'],
    unexplained && ['Unexplained', [fixed(unexplained.share * 100, 1), '%'], 'of wall time'],
    cost && cost.off_ns > 0 && ['Cost of profiling', cost.on_ns > cost.off_ns ? [fixed((cost.on_ns / cost.off_ns - 1) * 100, 1), '%'] : ['not measurable', ''], `${timeText(cost.on_ns)} against ${timeText(cost.off_ns)}`],
  ], document.getElementById('readings'));
}

/** Shows the name and share of a part of the bar, as far as they fit. */
function nameIfItFits(span) {
  const { share, name } = span.dataset;
  const words = [`${name} ${share}`, name, share, ''];
  for (const word of words) {
    span.textContent = word;
    if (span.offsetWidth <= span.parentElement.clientWidth) break;
  }
}

function drawSummary({ profile }, body) {
  const { budget, timeline } = profile;
  const rows = budget.rows.filter((r) => r.total_ns > 0 || r.phase === 'unexplained');
  if (!budget.rows.length || !(budget.wall_ns > 0)) return 'The budget is empty: no step was measured.';
  const largest = [...rows].sort((a, b) => b.total_ns - a.total_ns);
  const perStep = budget.rows.reduce((sum, r) => sum + r.per_step_ns, 0);
  const fired = profile.findings.filter((f) => f.fired);
  const top = [...profile.stages].sort((a, b) => b.share_of_step - a.share_of_step)[0];
  body.append(el('p', { class: 'verdict' },
    largest[0].phase === 'unexplained' ? `Nothing was recorded that explains ${percent(largest[0].share, 0)} of the wall time. `
      : [`${PHASES[largest[0].phase]} takes ${percent(largest[0].share, 0)} of the wall time`, largest[1]?.share > 0.005 ? `, ${PHASES[largest[1].phase].toLowerCase()} ${percent(largest[1].share, 0)}. ` : '. '],
    top && top.share_of_step > 0 ? ['The longest stage is ', code(top.name), ` with ${timeText(top.time.median)}. `] : null,
    timeline ? `The device is busy ${percent(timeline.busy, 0)} of the time. ` : null,
    fired.length ? `Most to gain: ${fired[0].rule.replaceAll('_', ' ')} (${fired[0].subject}), at most ${percent(fired[0].possible_gain, 0)}.` : profile.findings.length ? 'No rule fired.' : null));
  body.append(el('div', { class: 'stack', role: 'img', 'aria-label': rows.map((r) => `${PHASES[r.phase]} ${percent(r.share)}`).join(', ') },
    rows.filter((r) => r.total_ns > 0).map((r) => el('div', {
      class: r.phase === 'unexplained' ? 'unexplained' : null,
      style: `--phase: ${colour(r.phase)}; --on: var(--${onPhase(r.phase)}); flex: ${r.share} 1 0`, title: `${PHASES[r.phase]}: ${timeText(r.per_step_ns)} a step, ${percent(r.share)}`,
    }, el('span', { 'data-share': percent(r.share, 0), 'data-name': PHASES[r.phase] })))));
  redraws.push(() => body.querySelectorAll('.stack span').forEach(nameIfItFits));
  const most = Math.max(...rows.map((r) => r.per_step_ns));
  const foot = el('tr', {}, el('th', { class: 'name', scope: 'row' }, 'Wall time'), el('td', {}, ms(perStep, most)), el('td', {}, percent(budget.rows.reduce((s, r) => s + r.share, 0))), el('td', {}, fixed(budget.wall_ns / 1e9, 3)));
  body.append(el('div', { class: 'budget' }, table([
    { head: 'Phase', name: true, sort: (r) => PHASES[r.phase], show: (r) => [swatch(r.phase), PHASES[r.phase]] },
    { head: 'A step', unit: 'ms', sort: (r) => r.per_step_ns, show: (r) => ms(r.per_step_ns, most) },
    { head: 'Of wall time', sort: (r) => r.share, show: (r) => [percent(r.share), bar(r.share / largest[0].share, r.phase)] },
    { head: 'Whole window', unit: 's', sort: (r) => r.total_ns, show: (r) => fixed(r.total_ns / 1e9, 3) },
  ], rows, { foot, label: 'Budget' })));
}

function drawFindings({ profile }, body) {
  const title = (f) => [f.rule.replaceAll('_', ' ').replace(/^./, (c) => c.toUpperCase()), f.subject ? [': ', code(f.subject)] : null].flat();
  const fired = profile.findings.filter((f) => f.fired);
  const quiet = profile.findings.filter((f) => !f.fired);
  if (!profile.findings.length) return 'No rule was evaluated: the rules need the times of stages.';
  if (fired.length) {
    const most = Math.max(...fired.map((f) => f.possible_gain), 1e-9);
    body.append(el('ol', { class: 'findings' }, fired.map((f, i) => el('li', {},
      el('div', { class: 'gain' }, percent(f.possible_gain), el('small', {}, 'to gain at most'), bar(f.possible_gain / most)),
      el('div', { class: 'finding' }, el('h3', {}, title(f)), el('p', {}, f.evidence), fired.findIndex((other) => other.remedy === f.remedy) < i ? null : el('p', {}, el('strong', {}, 'Remedy: '), f.remedy), el('p', { class: 'note' }, `Rule: ${f.condition}`))))));
  } else {
    body.append(el('p', { class: 'absent' }, 'No rule fired: nothing that is known to limit such programs was found.'));
  }
  if (quiet.length) {
    body.append(el('details', {}, el('summary', {}, `${quiet.length} ${quiet.length === 1 ? 'rule was' : 'rules were'} looked at and did not fire`), table([
      { head: 'Rule', name: true, show: (f) => title(f) },
      { head: 'Measured', words: true, show: (f) => f.evidence },
      { head: 'Would fire if', words: true, show: (f) => f.condition },
    ], quiet, { label: 'Rules that did not fire', sortable: false, keep: false })));
  }
}

function drawDevice({ profile }, body) {
  const { timeline: t } = profile;
  if (!t) return 'This device has no timestamps, so only host times are known and the use of the device is not.';
  const number = (x) => [plain(x), ''];
  body.append(readings([
    ['Busy', [fixed(t.busy * 100, 1), '%']],
    ['Launch efficiency', [fixed(t.launch_efficiency * 100, 1), '%'], 'kernels over wall time'],
    ['Dispatches a step', number(t.kernels_per_step)],
    ['Mean dispatch', time(t.mean_kernel_ns)],
    ['Gap between spans', time(t.gap.median), `median; p95 ${timeText(t.gap.p95)}, in all ${timeText(t.gap.sum)}`],
    ['Submissions a step', number(t.submissions_per_step)],
    ['Waits for the device', number(t.syncs_per_step), 'a step'],
    ['To the device', scaled(t.bytes_written_per_step, 'B'), 'a step'],
    ['From the device', scaled(t.bytes_read_per_step, 'B'), 'a step'],
    ['Buffers made', number(t.allocations_per_step), 'a step'],
  ]));
  const check = t.clock_check;
  if (check) body.append(el('p', { class: 'note' }, `Cross-check of the clock: stages and gaps add up to ${timeText(check.stages_ns)}, two timestamps around the whole step say ${timeText(check.whole_ns)} (${percent(check.stages_ns / check.whole_ns - 1)} apart).`));
}

function drawTables({ profile }, body) {
  if (!profile.tables.length) return 'Neither scene nor memory was described in this profile.';
  body.append(el('div', { class: 'facts' }, profile.tables.map((t) => el('div', {}, el('h3', {}, t.title), factList(t.facts.map((f) => [f.name, f.value]))))));
}

function drawConfiguration({ profile }, body) {
  const { program } = profile;
  const pairs = (facts) => facts.map((f) => [f.name, f.value]);
  const ceilings = profile.ceilings && [['Bandwidth', `${scaled(profile.ceilings.bytes_per_second, 'B/s').join(' ')}`], ['Arithmetic, f32', scaled(profile.ceilings.flops_per_second, 'FLOP/s').join(' ')],
    ['Empty dispatch', known(profile.ceilings.dispatch_ns) ? timeText(profile.ceilings.dispatch_ns) : 'not measured'], ['Measured', profile.ceilings.source]];
  const parts = [
    ['Program', [['Name', program.name], ['Version', program.version], ['Commit', program.commit || 'not known'], ['Command', code(program.command)], ['Began', program.started]]],
    ['Device', pairs(profile.device)], ['Settings', pairs(profile.settings)], ceilings && ['Ceilings of the hardware', ceilings],
  ].filter((part) => part && part[1].length);
  body.append(el('div', { class: 'facts' }, parts.map(([name, facts]) => el('div', {}, el('h3', {}, name), factList(facts)))));
}

function drawMethod({ profile }, body) {
  const m = profile.method;
  body.append(el('div', { class: 'facts' }, el('div', {}, factList([
    ['Clock', m.clock || 'not said'], ['Synchronisation', m.synchronisation || 'not said'],
    ['Steps', `${fixed(m.measured_steps, 0)} measured after ${fixed(m.warm_up_steps, 0)} to warm up`],
    ['Timestamps', m.device_timestamps ? 'of the device itself' : 'none: host times only'],
    ['Device spans on the host’s clock', known(m.calibration_error_ns) ? `off by ${timeText(m.calibration_error_ns)} at most` : 'not placed'],
    ['Cost of profiling', m.overhead ? `step ${timeText(m.overhead.off_ns)} without, ${timeText(m.overhead.on_ns)} with; recording takes ${timeText(m.overhead.recording_ns)} of it` : 'not measured'],
  ])), el('div', {}, factList([
    ['Percentiles', 'by nearest rank; the median of an even number is the mean of the middle two'],
    ['Std', 'of a sample, over n − 1'], ['Share', 'of wall time between two moments at which the device had nothing to do'],
    ['Possible gain', 'by Amdahl’s law, if what was found went entirely'], ['Roofline', 'Williams, Waterman, Patterson 2009; work counted by formula, an FMA is two operations'],
  ]))));
  const cautions = m.cautions || [];
  if (cautions.length) body.append(el('ul', { class: 'warnings' }, cautions.map((text) => el('li', {}, text))));
  if (m.notes.length) body.append(el('ul', {}, m.notes.map((note) => el('li', {}, note))));
}
