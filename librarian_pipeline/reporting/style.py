"""How the report looks: on a phone, on a wide screen, in the dark, and on paper. No font or picture comes from elsewhere."""

CSS = """
:root{color-scheme:light dark;--ink:#1d1f23;--soft:#5a606b;--paper:#fbfaf7;--card:#fff;--line:#dedbd3;--accent:#0b62a8;
--good:#11683f;--bad:#a61b1b;--warn:#8a5a00}
@media (prefers-color-scheme:dark){:root{--ink:#e8e6e1;--soft:#a6abb5;--paper:#16181c;--card:#1e2126;--line:#363a42;
--accent:#7cc0ff;--good:#6fd3a6;--bad:#ff9a92;--warn:#f0c36a}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif}
header,main,footer{max-width:68rem;margin:0 auto;padding:0 1rem}
header{padding-top:2.2rem}
h1{font:600 2rem/1.15 Georgia,"Times New Roman",serif;margin:0 0 .2rem;text-wrap:balance}
h2{font:600 1.35rem/1.25 Georgia,"Times New Roman",serif;margin:0 0 .6rem}
p{margin:.4rem 0 .8rem;max-width:46rem}
a{color:var(--accent)}
.soft,caption,footer{color:var(--soft)}
section{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:1.1rem 1.2rem;margin:1.2rem 0}
nav ul{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;list-style:none;padding:0;margin:.8rem 0}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(11.5rem,1fr));gap:.8rem;margin:1.2rem 0;padding:0}
.tiles div{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:.7rem .9rem}
.tiles dt{color:var(--soft);font-size:.85rem}
.tiles dd{margin:0;font-size:1.25rem;font-weight:600;overflow-wrap:anywhere}
.good{color:var(--good)}.bad{color:var(--bad)}.warn{color:var(--warn)}
.scroll{overflow-x:auto;margin:.4rem 0 1rem}
:focus-visible{outline:3px solid var(--accent);outline-offset:2px}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:.94rem}
caption{text-align:left;font-size:.88rem;padding-bottom:.3rem}
th,td{padding:.36rem .7rem .36rem 0;border-bottom:1px solid var(--line);text-align:left;vertical-align:top;
overflow-wrap:anywhere}
thead th{color:var(--soft);font-weight:600;border-bottom-width:2px;overflow-wrap:normal}
tbody th{font-weight:600;overflow-wrap:normal}
.number{text-align:right;white-space:nowrap}
.interval{display:block;color:var(--soft);font-size:.8rem}
.best{font-weight:700}
.span{display:block;width:5.5rem;height:10px;margin:.15rem 0 0 auto}
.span .axis{stroke:var(--line);stroke-width:2}.span .reach{stroke:var(--accent);stroke-width:3}
.span .value{fill:var(--accent)}
code{font:.88em ui-monospace,Consolas,monospace;overflow-wrap:anywhere}
details{margin:.5rem 0}summary{cursor:pointer;padding:.15rem 0}
ul{padding-left:1.2rem;margin:.3rem 0 .8rem}
li{overflow-wrap:anywhere}
.history-plot{width:100%;height:auto;min-width:34rem;max-width:46rem}.moment{white-space:nowrap}
footer{padding:0 1rem 2.5rem;font-size:.88rem}
@media (max-width:34rem){section{padding:.9rem .8rem;border-radius:8px}h1{font-size:1.6rem}th,td{padding-right:.5rem}}
@media print{:root{--paper:#fff;--card:#fff;--ink:#000;--soft:#444;--line:#bbb}nav{display:none}body{font-size:10.5pt}
section{border:0;padding:0}table{break-inside:auto}tr{break-inside:avoid}.scroll{overflow:visible}h2{break-after:avoid}}
"""
