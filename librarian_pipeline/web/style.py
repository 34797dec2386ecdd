"""How the pages look: the report's colours and letters, and what only a page to search and read needs."""

from librarian_pipeline.reporting.style import CSS as REPORT_CSS

CSS = (
    REPORT_CSS
    + """
:root{--mark:#ffe58a;--on-accent:#fff}
@media (prefers-color-scheme:dark){:root{--mark:#6b5410;--on-accent:#10202e}}
header,main,footer{max-width:50rem}
header{padding-top:1.4rem}
main{padding-bottom:2rem}
.name{font:600 1.25rem/1.2 Georgia,"Times New Roman",serif;margin:0 0 .8rem}
.name a{color:inherit;text-decoration:none}.name a:hover{text-decoration:underline}
h1{font-size:1.65rem;overflow-wrap:anywhere;margin-top:1.4rem}
h2{font-size:1.1rem;margin:0 0 .25rem;overflow-wrap:anywhere}
.skip{position:absolute;left:-999rem}.skip:focus{position:static;display:inline-block;padding:.4rem .2rem}
.searching{display:grid;grid-template-columns:minmax(0,1fr) auto auto;gap:.3rem .6rem;align-items:end}
.searching label{display:block;font-size:.85rem;color:var(--soft)}
.searching input,.searching select,.searching button{font:inherit;width:100%;min-height:2.75rem;padding:.45rem .7rem;
border-radius:8px;border:1px solid var(--soft);background:var(--card);color:var(--ink)}
.searching button{background:var(--accent);border-color:var(--accent);color:var(--on-accent);font-weight:600;cursor:pointer}
.warning{border:1px solid var(--warn);border-left-width:6px;background:var(--card);border-radius:8px;padding:.7rem .9rem;
margin:1rem 0;overflow-wrap:anywhere;max-width:none}
ol.passages{list-style:none;padding:0;margin:1rem 0}
.passages>li{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:.9rem 1.1rem;margin:.8rem 0}
.passages>li.here{border-left:6px solid var(--accent)}
.passages p{margin:.25rem 0 .45rem;max-width:none;overflow-wrap:anywhere}
.passages .text{line-height:1.65;white-space:pre-line}
.links{display:flex;flex-wrap:wrap;gap:.1rem 1.2rem;font-size:.92rem}
.links a{display:inline-block;padding:.3rem 0}
mark{background:var(--mark);color:inherit;border-radius:3px;padding:0 .12em}
.passages .links{margin-bottom:0}
audio{width:100%;margin:.6rem 0;display:block}
.player{position:sticky;top:0;background:var(--paper);padding:.2rem 0;z-index:1}
.pages{display:flex;justify-content:space-between;gap:1rem;margin:1rem 0}
.catalogue{list-style:none;padding:0;margin:.6rem 0}
.catalogue li{padding:.5rem 0;border-bottom:1px solid var(--line)}
.catalogue a{font-weight:600}
.catalogue .soft{display:block;font-size:.88rem}
footer{border-top:1px solid var(--line);padding-top:.8rem}
@media (max-width:34rem){.searching{grid-template-columns:minmax(0,1fr) auto}.searching div:first-child{grid-column:1/-1}
.passages>li{padding:.7rem .8rem}}
@media print{.searching,.player,.links,.pages{display:none}}
"""
)
