//! The page that the demo leaves: one file, no script, drawn from the load generator's reports.

use std::fmt::Write as _;
use std::time::Duration;

use crate::demo::Run;

const STYLE: &str = "
:root{color-scheme:light dark;--ink:#1b1f24;--faint:#6a737d;--line:#d0d7de;--page:#fff;--one:#0b62c4;--two:#c4500b}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--faint:#9198a1;--line:#3d444d;--page:#0d1117;--one:#58a6ff;--two:#f0883e}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:.3rem .6rem;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left}
p.note{color:var(--faint)}
.charts{display:flex;flex-wrap:wrap;gap:1.5rem}
figure{margin:0;flex:1 1 24rem}
svg{width:100%;height:auto}
svg text{fill:var(--faint);font:12px system-ui,sans-serif}
.scroll{overflow-x:auto}
";

/// A line in a chart: its name, its class of color, and what it shows of a run.
type Series<'a> = (&'a str, &'a str, fn(&Run) -> f64);

/// The whole page.
pub(crate) fn page(runs: &[Run], duration: Duration) -> String {
    let throughput: [Series<'_>; 1] = [("requests/s", "--one", |run| run.figure("/throughput_per_s"))];
    let response: [Series<'_>; 2] = [
        ("mean", "--one", |run| run.figure("/response/mean_us") / 1e3),
        ("p99", "--two", |run| run.figure("/response/p99_us") / 1e3),
    ];
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>Posthaste demo</title>\
         <style>{STYLE}</style><h1>Posthaste demo</h1>\
         <p>The queue tier on its durable embedded store, loaded on this machine with the twelve-step workload \
         for {} s at each number of clients. A client sends its next request when it has the answer to the last. \
         Every answered change was on disk before its answer left; every message was checked.</p>\
         <div class=\"charts\">{}{}</div>{}{}\
         <p class=\"note\">Server and load generator share this machine's cores, so absolute figures are below what \
         two machines would show.</p></html>\n",
        duration.as_secs_f64(),
        chart("Throughput", "requests per second", runs, &throughput),
        chart("Response time", "milliseconds", runs, &response),
        overall(runs),
        by_kind(runs),
    )
}

fn overall(runs: &[Run]) -> String {
    let mut rows = String::new();
    for run in runs {
        let _ = write!(rows, "<tr><td>{}<td>{:.0}", run.clients, run.figure("/throughput_per_s"));
        for name in ["mean_us", "p50_us", "p90_us", "p99_us", "p99.9_us"] {
            let _ = write!(rows, "<td>{:.0}", run.figure(&format!("/response/{name}")));
        }
        let _ = write!(rows, "<td>{:.0}<td>{:.0}", run.figure("/nulls"), run.figure("/errors"));
    }
    format!(
        "<h2>By number of clients</h2><div class=\"scroll\"><table><tr><th>clients<th>requests/s<th>mean µs<th>p50 µs\
         <th>p90 µs<th>p99 µs<th>p99.9 µs<th>nulls<th>errors{rows}</table></div>"
    )
}

/// The kinds of requests at the largest number of clients.
fn by_kind(runs: &[Run]) -> String {
    let Some(run) = runs.last() else { return String::new() };
    let Some(kinds) = run.report.get("kinds").and_then(|kinds| kinds.as_object()) else {
        return String::new();
    };
    let mut rows = String::new();
    for name in kinds.keys() {
        let figure = |field: &str| run.figure(&format!("/kinds/{name}/{field}"));
        let _ = write!(
            rows,
            "<tr><td>{name}<td>{:.0}<td>{:.0}<td>{:.0}<td>{:.0}",
            figure("throughput_per_s"),
            figure("response/mean_us"),
            figure("response/p50_us"),
            figure("response/p99_us"),
        );
    }
    format!(
        "<h2>By kind of request, {} clients</h2><div class=\"scroll\"><table><tr><th>kind<th>requests/s<th>mean µs\
         <th>p50 µs<th>p99 µs{rows}</table></div>",
        run.clients
    )
}

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 64.0;
const BOTTOM: f64 = 40.0;
const TOP: f64 = 24.0;
const RIGHT: f64 = 16.0;

/// A chart over the number of clients, each count at the same distance from the next.
fn chart(title: &str, unit: &str, runs: &[Run], series: &[Series<'_>]) -> String {
    let largest = runs.iter().flat_map(|run| series.iter().map(|(_, _, of)| of(run))).fold(0.0, f64::max);
    let (top, step) = scale(largest);
    let x = |i: usize| LEFT + (WIDTH - LEFT - RIGHT) * (i as f64 + 0.5) / runs.len().max(1) as f64;
    let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / top;
    let mut svg = String::new();
    let mut tick = 0.0;
    while tick <= top * 1.0001 {
        let _ = write!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"var(--line)\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y(tick) + 4.0,
            label(tick),
            y = y(tick),
        );
        tick += step;
    }
    for (i, run) in runs.iter().enumerate() {
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            x(i),
            HEIGHT - 20.0,
            run.clients
        );
    }
    for (place, (name, color, of)) in series.iter().enumerate() {
        let points: Vec<String> =
            runs.iter().enumerate().map(|(i, run)| format!("{:.1},{:.1}", x(i), y(of(run)))).collect();
        let _ = write!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"var({color})\" stroke-width=\"2\"/>",
            points.join(" ")
        );
        for point in &points {
            let (px, py) = point.split_once(',').unwrap_or_default();
            let _ = write!(svg, "<circle cx=\"{px}\" cy=\"{py}\" r=\"3.5\" fill=\"var({color})\"/>");
        }
        let _ = write!(
            svg,
            "<text x=\"{}\" y=\"14\" style=\"fill:var({color})\">{name}</text>",
            LEFT + 90.0 * place as f64
        );
    }
    format!(
        "<figure><h2>{title}</h2><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}, {unit}, over the \
         number of clients\">{svg}<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">clients</text></svg>\
         <figcaption>{unit}</figcaption></figure>",
        f64::midpoint(LEFT, WIDTH - RIGHT),
        HEIGHT - 2.0,
    )
}

/// The top of an axis that holds `largest`, and the step between its marks: 1, 2 or 5 times a power of ten.
fn scale(largest: f64) -> (f64, f64) {
    let rough = (largest / 5.0).max(1e-9);
    let power = 10_f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|step| *step >= rough).unwrap_or(power);
    ((largest / step).ceil().max(1.0) * step, step)
}

/// A number on an axis: `12 k` rather than `12000`.
fn label(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{} M", v / 1e6),
        v if v >= 1e3 => format!("{} k", v / 1e3),
        v => format!("{}", (v * 1e3).round() / 1e3),
    }
}
