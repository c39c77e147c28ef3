// The style of an experiment's page: colours for light and dark, and what changes on a narrow screen.

export const PAGE_STYLE = `
:root { color-scheme: light dark;
  --ink: #1b1f24; --soft: #5b6673; --line: #d9dee4; --paper: #ffffff; --raised: #f5f7f9; --accent: #1f7a3f;
  --base: #9aa5b1; --expert: #6b8fc9; --average: #b3a06a; --merge: #a585b8; --swap: #2f9155; --joint: #c98a5b;
  --deep: #14532d; --heat: #2f9155; --lost: #c45a4a; --gained: #2f9155; --shade: #00000038; }
@media (prefers-color-scheme: dark) { :root {
  --ink: #e7ebf0; --soft: #9ba7b4; --line: #323a44; --paper: #14181d; --raised: #1c2229; --accent: #6fce93;
  --base: #6d7885; --expert: #7fa0d6; --average: #b8a76f; --merge: #b095c4; --swap: #4db777; --joint: #d39a6e;
  --heat: #3ea468; --lost: #d97a6b; --gained: #4db777; --shade: #ffffff40; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
body { margin: 0 auto; max-width: 68rem; padding: 0 1.25rem 3rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 2rem 0 .5rem; }
h2 { font-size: 1.35rem; margin: 2.75rem 0 .4rem; padding-top: .75rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.5rem 0 .2rem; overflow-wrap: anywhere; }
p { margin: .4rem 0; max-width: 46rem; }
.lead { font-size: 1.1rem; }
.state { color: var(--accent); font-weight: 600; }
.state.open { color: var(--joint); }
.note, .caption, .legend, footer { color: var(--soft); font-size: .9rem; }
nav { display: flex; flex-wrap: wrap; gap: .4rem .5rem; margin: 1rem 0 0; }
nav a { padding: .2rem .7rem; border: 1px solid var(--line); border-radius: 1rem; color: inherit; font-size: .88rem; text-decoration: none; }
nav a:hover { border-color: var(--accent); color: var(--accent); }
figure { margin: 0 0 1.5rem; min-width: 0; }
.said { font-size: .93rem; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; }
.key { display: inline-block; width: .8rem; height: .8rem; margin-right: .4rem; border-radius: 2px; vertical-align: -1px; background: var(--merge); }
.scroll { overflow-x: auto; max-width: 100%; background:
  linear-gradient(90deg, transparent, var(--paper) 70%) 100% 0 / 2.5rem 100% no-repeat local,
  linear-gradient(270deg, var(--shade), transparent) 100% 0 / .9rem 100% no-repeat scroll; }
table { border-collapse: separate; border-spacing: 0; font-variant-numeric: tabular-nums; }
th { font-weight: 500; text-align: left; }
small { display: block; color: var(--soft); font-size: .78rem; font-weight: 400; line-height: 1.3; }
table.numbers { min-width: 60%; margin: .5rem 0; font-size: .93rem; }
.numbers th, .numbers td { padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
.numbers thead th { color: var(--soft); font-size: .84rem; vertical-align: bottom; }
.numbers td, .numbers thead th { text-align: right; }
.numbers thead th.text, .numbers tbody th, .numbers td.text { text-align: left; }
.numbers td { white-space: nowrap; }
.numbers thead th { min-width: 4.2rem; max-width: 8rem; line-height: 1.25; }
.numbers td.text { white-space: normal; }
.numbers tbody th { min-width: 9rem; }
.numbers td.best { font-weight: 700; color: var(--accent); }
table.bars { width: 100%; margin-top: .5rem; }
.bars th { width: 19rem; padding: .3rem 1rem .3rem 0; vertical-align: middle; line-height: 1.25; }
.bars td { padding: 0; vertical-align: middle; }
.bars td.value { width: 3.6rem; padding-left: .6rem; text-align: right; }
.track { position: relative; height: 1.4rem; background: linear-gradient(90deg, var(--line) 1px, transparent 1px) 0 0 / 25% 100%, var(--raised); border-right: 1px solid var(--line); }
.bar { position: absolute; left: 0; top: 0; height: 100%; border-radius: 0 3px 3px 0; }
.bar, .key { background: var(--merge); }
.base { background: var(--base); } .expert { background: var(--expert); } .average { background: var(--average); }
.swap { background: var(--swap); } .joint { background: var(--joint); }
.range { position: absolute; top: calc(50% - 1px); height: 2px; background: var(--ink); opacity: .75; }
.range::before, .range::after { content: ""; position: absolute; top: -4px; width: 2px; height: 10px; background: inherit; }
.range::before { left: 0; } .range::after { right: 0; }
.models { position: absolute; top: calc(50% - 3px); }
.models::before, .models::after { content: ""; position: absolute; width: 6px; height: 6px; border-radius: 50%; background: var(--ink); }
.models::before { left: -3px; } .models::after { right: -3px; }
.ticks { position: relative; height: 1.2rem; color: var(--soft); font-size: .76rem; }
.ticks span { position: absolute; transform: translateX(-50%); }
.ticks span:first-child { transform: none; } .ticks span:last-child { transform: translateX(-100%); }
.bars tr.best .value, .bars tr.best th { font-weight: 700; }
table.heatmap { margin: .5rem 0; }
.heatmap th { padding: .25rem .6rem; color: var(--soft); font-size: .88rem; text-align: center; }
.heatmap th.axis { font-size: .8rem; }
.heatmap td { min-width: 4.6rem; height: 2.9rem; padding: .2rem .4rem; border: 1px solid var(--paper); text-align: center; font-size: .93rem; }
.heat { background: color-mix(in srgb, var(--heat) calc(8% + var(--depth) * .92), var(--paper)); }
.heat small { color: inherit; opacity: .85; }
.heat.deep { color: #fff; }
.heat.chosen { outline: 2px solid var(--ink); outline-offset: -3px; }
.flips { min-width: 12rem; }
.numbers td.flips { white-space: nowrap; text-align: center; }
.side { display: inline-flex; align-items: center; gap: .35rem; width: 50%; }
.side:first-child { justify-content: flex-end; padding-right: .4rem; border-right: 1px solid var(--soft); }
.side:last-child { flex-direction: row-reverse; justify-content: flex-end; padding-left: .4rem; }
.flip { display: inline-block; height: .8rem; border-radius: 2px; }
.flip.lost { background: var(--lost); } .flip.gained { background: var(--gained); }
details { margin: .2rem 0; }
summary { color: var(--accent); cursor: pointer; font-size: .9rem; }
td details p { max-width: 24rem; white-space: normal; text-align: left; font-size: .8rem; }
code { padding: 0 .2rem; background: var(--raised); border-radius: 3px; font-size: .85em; }
footer { margin-top: 3rem; }
@media (max-width: 44rem) {
  body { padding: 0 .9rem 2rem; }
  h1 { font-size: 1.5rem; } .lead { font-size: 1rem; }
  .bars, .bars tbody, .bars tfoot { display: block; }
  .bars tr { display: grid; grid-template-columns: 1fr 3.4rem; }
  .bars th { grid-column: 1 / -1; width: auto; padding: .5rem 0 .1rem; }
  .bars tfoot th { display: none; }
  .bars td.value { width: auto; }
  .heatmap td { min-width: 3.6rem; }
  .numbers thead th { min-width: 3.6rem; }
  table.numbers { min-width: 100%; }
  .numbers tbody th { min-width: 8rem; max-width: 11rem; overflow-wrap: anywhere; position: sticky; left: 0; background: var(--paper); }
  .numbers td.text { min-width: 7rem; }
}
@media print { nav, summary { display: none; } body { max-width: none; } }
`;
