//! How the page looks. No picture, no font, no script from anywhere.

pub(super) const CSS: &str = r"
:root{--ink:#1d2939;--soft:#475467;--faint:#667085;--line:#e4e7ec;--card:#fff;--back:#f5f6f8;--accent:#1d4ed8}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);font:15px/1.55 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}
.wrap{max-width:1020px;margin:0 auto;padding:28px 20px 60px}
h1,h2,h3{line-height:1.25;margin:0}
h1{font-size:30px;letter-spacing:-.01em;overflow-wrap:anywhere}
h2{font-size:20px;margin:40px 0 14px}
h3{font-size:16px}
p{margin:0}
a{color:var(--accent)}
.hero{background:linear-gradient(135deg,#0b1f3a,#173a6b);color:#fff;border-radius:18px;padding:30px 32px;display:flex;gap:30px;align-items:center}
.hero .disc{background:#fff;border-radius:50%;padding:9px;line-height:0;flex:none}
.hero .kind{text-transform:uppercase;letter-spacing:.09em;font-size:12px;opacity:.75;margin-bottom:4px}
.hero .url{opacity:.85;overflow-wrap:anywhere;margin-top:4px}
.hero .sum{margin-top:14px;font-size:16px;max-width:62ch}
.hero .delta{margin-top:10px;opacity:.92}
.meta{opacity:.7;font-size:13px;margin-top:12px}
.cats{display:grid;grid-template-columns:repeat(5,1fr);gap:12px;margin-top:16px}
.cat{background:var(--card);border:1px solid var(--line);border-radius:14px;padding:16px 8px 13px;text-align:center}
.cat b{display:block;margin-top:6px;font-size:14px}
.cat span{font-size:12px;color:var(--faint)}
.card{background:var(--card);border:1px solid var(--line);border-radius:14px;padding:18px 22px;margin:0 0 12px}
.first{display:grid;grid-template-columns:repeat(3,1fr);gap:12px}
.first .card{margin:0;display:flex;flex-direction:column;gap:6px}
.first .num{font-size:13px;color:var(--accent);font-weight:700}
.first p{color:var(--soft);font-size:14px}
.issue{box-shadow:inset 5px 0 0 #7a8699}
.issue.high{box-shadow:inset 5px 0 0 #c62828}.issue.medium{box-shadow:inset 5px 0 0 #d98200}
.issue header{display:flex;gap:10px;align-items:baseline;flex-wrap:wrap;justify-content:space-between}
.tags{display:flex;gap:6px;flex-wrap:wrap}
.tag{font-size:11.5px;background:#eef1f6;color:var(--soft);border-radius:99px;padding:2px 10px;white-space:nowrap}
.tag.cost{background:#fdecea;color:#a31515}
.issue .why{color:var(--soft);margin-top:6px}
.fix{background:#eef4ff;border-radius:10px;padding:10px 14px;margin-top:10px}
.fix b{color:#173a8a}
.proof{list-style:none;margin:10px 0 0;padding:0;font:12.5px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,'Liberation Mono',monospace}
.proof li{background:#f7f8fa;border:1px solid var(--line);border-radius:7px;padding:4px 10px;margin-top:5px;overflow-wrap:anywhere;display:flex;gap:10px}
.proof i{font-style:normal;color:var(--faint);flex:none}
.more{color:var(--faint);font-size:13px;margin-top:6px}
.level{display:flex;align-items:center;gap:9px;margin:22px 0 10px;font-size:16px;font-weight:600}
.level .n{color:var(--faint);font-weight:400}
.dot{width:11px;height:11px;border-radius:50%;display:inline-block;flex:none}
.cols{display:grid;grid-template-columns:1fr 1fr;gap:12px;align-items:start;margin-bottom:12px}
.cols .card{margin:0}
table{border-collapse:collapse;width:100%;font-size:14px}
th,td{text-align:left;padding:6px 10px 6px 0;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}
tr:last-child td,tr:last-child th{border-bottom:0}
th{color:var(--faint);font-weight:500}
td.n{text-align:right;white-space:nowrap;padding-right:0}
.legend{display:flex;gap:16px;flex-wrap:wrap;font-size:12.5px;color:var(--soft);margin-bottom:8px}
.legend i{width:11px;height:11px;border-radius:3px;display:inline-block;margin-right:5px;vertical-align:-1px}
.shot{max-width:100%;max-height:720px;border:1px solid var(--line);border-radius:10px;display:block;margin:0 auto}
details{margin-top:8px}
summary{cursor:pointer;color:var(--soft)}
.passed{columns:2;column-gap:28px;list-style:none;margin:8px 0 0;padding:0;font-size:14px}
.passed li{padding:2px 0;break-inside:avoid}
.passed li::before{content:'✓';color:#1b7f3b;font-weight:700;margin-right:7px}
.passed li.na{color:var(--faint)}
.passed li.na::before{content:'–';color:var(--faint)}
.up{color:#1b7f3b}.down{color:#c62828}
footer{margin-top:40px;color:var(--faint);font-size:13px;border-top:1px solid var(--line);padding-top:14px}
@media(max-width:760px){.hero{flex-direction:column;align-items:flex-start;padding:24px 22px}.cats{grid-template-columns:repeat(2,1fr)}.first,.cols{grid-template-columns:1fr}.passed{columns:1}}
@media print{body{background:#fff;font-size:12.5px}.wrap{padding:0;max-width:none}.hero{-webkit-print-color-adjust:exact;print-color-adjust:exact}.card,.cat{break-inside:avoid}h2,.level{break-after:avoid}}
";
