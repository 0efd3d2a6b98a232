//! `posthaste admin top`: shows again and again what a tier is doing now. On a terminal it repaints a page;
//! elsewhere it writes one line for each look that finds a window it has not written yet, fit to be kept or cut into
//! columns.

mod frame;

use std::error::Error;
use std::io::{ErrorKind, IsTerminal as _, Write as _, stdout};
use std::thread::sleep;
use std::time::Instant;

use posthaste_load::stderr::complain;
use rustix::termios::tcgetwinsize;
use serde_json::Value as Json;

use self::frame::{HEADING, Snapshot, frame, line};
use crate::flags::TopFlags;
use crate::web::Web;

/// Terminal commands: go to the upper left corner, clear the rest of a line or of the page.
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";
const CLEAR_ALL: &str = "\x1b[2J";

/// Shows the tier until it is interrupted, or as often as was asked for.
pub(crate) fn run(flags: &TopFlags) -> Result<(), Box<dyn Error>> {
    let web = Web::new(&flags.reach)?;
    let live = stdout().is_terminal();
    let start = Instant::now();
    let mut before = None;
    let mut written = Json::Null;
    let mut is_away = false;
    let mut looks = 0;
    loop {
        let now = match look(&web, flags.rows, live, start) {
            // A tier that has answered before may be starting again.
            Err(error) if looks > 0 => {
                if !live && !is_away {
                    complain(format_args!("posthaste: asking again: {error}"));
                }
                Err(error)
            }
            now => Ok(now?),
        };
        let text = match &now {
            Ok(now) if live => page(&frame(now, before.as_ref(), flags.rows), looks == 0),
            Ok(now) => {
                let heading = if looks == 0 { format!("{HEADING}\n") } else { String::new() };
                heading + &new_line(now, &mut written)
            }
            Err(error) if live => page(&format!("asking again: {error}"), false),
            Err(_) => String::new(),
        };
        match stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()), // nobody looks any more
            written => written?,
        }
        looks += 1;
        if flags.count == Some(looks) {
            return Ok(());
        }
        is_away = now.is_err();
        before = now.ok();
        sleep(flags.every);
    }
}

/// Returns the line of the last window, unless none is over yet or it begins when the one last `written` did.
fn new_line(now: &Snapshot, written: &mut Json) -> String {
    let begin = now.window["start_s"].clone();
    if begin == *written {
        return String::new();
    }
    *written = begin;
    format!("{}\n", line(now))
}

/// Asks the tier for what is to be shown. `start` is when this program began.
fn look(web: &Web, rows: usize, all: bool, start: Instant) -> Result<Snapshot, Box<dyn Error>> {
    let windows = web.json("/v1/windows?last=1")?.ok_or("there is no tier of posthaste at this address")?;
    let mut now = Snapshot {
        address: web.address().to_owned(),
        window: windows.get(0).cloned().unwrap_or(Json::Null),
        ..Snapshot::default()
    };
    if !all {
        return Ok(now);
    }
    let status = web.json("/v1/status")?.unwrap_or_default();
    now.at_s = start.elapsed().as_secs_f64();
    if status["tier"] == "cache" {
        now.figures = Some(web.figures()?);
        return Ok(now);
    }
    let queues = web.json(&format!("/v1/queues?sort=messages&descending=true&limit={}", rows.max(1)));
    // A store in trouble may have no queues to show; the trouble itself is shown above.
    now.queues = if status["ready"] == false { queues.unwrap_or_default() } else { queues? };
    now.at_s = start.elapsed().as_secs_f64();
    now.clients = web.json("/v1/clients")?;
    now.status = Some(status);
    Ok(now)
}

/// Formats a page that replaces the one before, cut to the size of the terminal.
fn page(text: &str, first: bool) -> String {
    let size = tcgetwinsize(stdout()).ok().filter(|size| size.ws_row > 1 && size.ws_col > 1);
    let (rows, columns) =
        size.map_or((usize::MAX, usize::MAX), |size| (size.ws_row.into(), size.ws_col.into()));
    let mut page = if first { format!("{CLEAR_ALL}{HOME}") } else { HOME.to_owned() };
    for line in text.lines().take(rows - 1) {
        page.extend(line.chars().take(columns));
        page += CLEAR_LINE;
        page += "\r\n";
    }
    page + CLEAR_BELOW
}

#[cfg(test)]
mod tests {
    use super::page;

    #[test]
    fn a_page_overwrites_the_one_before() {
        let text = page("a\nb", false);
        assert_eq!(text, "\x1b[Ha\x1b[K\r\nb\x1b[K\r\n\x1b[J");
        assert!(page("a", true).starts_with("\x1b[2J"));
    }
}
