//! The list of queues as a console reads it: searched, sorted, one page.
//!
//! A page shows fifty of perhaps 100,000 queues, and finding them needs a look at all. So a long list is asked of the
//! store once and kept for two seconds, for all callers: typing into the search, sorting by another column, turning
//! pages and further consoles do not ask again. A list of up to [`SHORT`] queues is asked for every time, and a change
//! made over HTTP makes the next request ask. While the store is away one caller waits for it, and all others that
//! arrive meanwhile get the same error.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Atomic};
use std::time::{Duration, Instant};

use posthaste_wire::reply::Value;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::auth::Caller;
use super::problem::Problem;
use super::resp_command::RespCommand;

/// Up to this many queues a list costs next to nothing, and is never kept.
const SHORT: usize = 1000;

/// How old a longer list may be; a console asks every three seconds.
const KEPT_FOR: Duration = Duration::from_secs(2);

/// A queue as QLIST shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Row {
    name: String,
    id: i64,
    messages: i64,
    bytes: i64,
    oldest_ms: i64,
    /// The name as it is searched and sorted by.
    #[serde(skip)]
    plain: String,
}

/// What a list is sorted by.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Sort {
    #[default]
    Id,
    Name,
    Messages,
    Bytes,
    OldestMs,
}

/// The page that is asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    /// Part of the name, in capitals or not.
    pub(super) search: String,
    pub(super) sort: Sort,
    pub(super) descending: bool,
    pub(super) offset: usize,
    pub(super) limit: usize,
}

/// The last list, or why it could not be made.
#[derive(Default)]
pub(super) struct Lists {
    last: Mutex<Last>,
    /// How many changes were made over HTTP.
    changes: AtomicU64,
}

#[derive(Default)]
struct Last {
    /// The last list, if it is long.
    kept: Option<Kept>,
    /// When the store could not be asked, and why.
    failed: Option<(Instant, Problem)>,
}

struct Kept {
    since: Instant,
    /// The value of `changes` before the list was made.
    changes: u64,
    rows: Arc<Vec<Row>>,
}

impl Lists {
    /// Returns every queue, by id. A request that arrives while a list is being made waits for that list.
    ///
    /// # Errors
    /// What the server refused.
    pub(super) async fn all(&self, caller: &Caller) -> Result<Arc<Vec<Row>>, Problem> {
        let may_see = async { caller.must_administer().await.map(drop) };
        let list = async {
            let answer = caller.ask(RespCommand::of(&["QLIST"])).await?;
            Ok(answer.value().parts().iter().map(Row::of).collect())
        };
        self.shared(may_see, list).await
    }

    /// Returns the kept list, if the caller may see it, or else a new one.
    async fn shared(
        &self,
        may_see: impl Future<Output = Result<(), Problem>>,
        list: impl Future<Output = Result<Vec<Row>, Problem>>,
    ) -> Result<Arc<Vec<Row>>, Problem> {
        let came = Instant::now();
        let mut last = self.last.lock().await;
        // Without this, each request that waits would wait for the store in turn.
        if let Some((when, problem)) = &last.failed
            && *when >= came
        {
            return Err(problem.clone());
        }
        let changes = self.changes.load(Atomic::Acquire);
        last.kept.take_if(|kept| kept.changes != changes || kept.since.elapsed() > KEPT_FOR);
        if let Some(kept) = &last.kept {
            may_see.await?;
            return Ok(Arc::clone(&kept.rows));
        }
        let made = list.await;
        if let Err(problem) = &made
            && problem.is_unavailable()
        {
            last.failed = Some((Instant::now(), problem.clone()));
        }
        let rows = Arc::new(made?);
        if rows.len() > SHORT {
            last.kept = Some(Kept { since: Instant::now(), changes, rows: Arc::clone(&rows) });
        }
        Ok(rows)
    }

    /// Notes a change that the next list must show.
    pub(super) fn forget(&self) {
        self.changes.fetch_add(1, Atomic::Release);
    }
}

impl Row {
    fn of(queue: &Value<'_>) -> Self {
        let number = |of: &[u8]| queue.get(of).and_then(Value::as_integer).unwrap_or_default();
        let name = queue.get(b"name").and_then(Value::as_bytes).unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        Self {
            id: number(b"id"),
            messages: number(b"messages"),
            bytes: number(b"bytes"),
            oldest_ms: number(b"oldest_ms"),
            plain: name.to_lowercase(),
            name,
        }
    }

    /// Compares two queues for sorting. Of queues with equal figures the younger one is first, so in reverse order the
    /// elder.
    fn against(&self, other: &Self, sort: Sort) -> Ordering {
        let younger = || other.id.cmp(&self.id);
        match sort {
            Sort::Id => self.id.cmp(&other.id),
            Sort::Name => self.plain.cmp(&other.plain).then(self.id.cmp(&other.id)),
            Sort::Messages => self.messages.cmp(&other.messages).then_with(younger),
            Sort::Bytes => self.bytes.cmp(&other.bytes).then_with(younger),
            Sort::OldestMs => self.oldest_ms.cmp(&other.oldest_ms).then_with(younger),
        }
    }
}

/// Returns how many queues the search finds, and those of the page. Only the rows up to the page's end are sorted.
pub(super) fn cut<'a>(rows: &'a [Row], page: &Page) -> (usize, Vec<&'a Row>) {
    let search = page.search.to_lowercase();
    let mut found: Vec<&Row> = rows.iter().filter(|row| row.plain.contains(&search)).collect();
    let order = |a: &&Row, b: &&Row| {
        let order = a.against(b, page.sort);
        if page.descending { order.reverse() } else { order }
    };
    let total = found.len();
    let end = page.offset.saturating_add(page.limit);
    if end < total {
        found.select_nth_unstable_by(end, order);
        found.truncate(end);
    }
    found.sort_unstable_by(order);
    found.drain(..page.offset.min(found.len()));
    (total, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: i64) -> Row {
        let name = format!("Queue {id}");
        Row { plain: name.to_lowercase(), name, id, messages: id % 7, bytes: -id, oldest_ms: 0 }
    }

    #[test]
    fn pages_side_by_side_are_the_sorted_list() {
        let rows: Vec<Row> = (1..=100).map(row).collect();
        for sort in [Sort::Id, Sort::Name, Sort::Messages, Sort::Bytes, Sort::OldestMs] {
            for descending in [false, true] {
                let page = |offset, limit| {
                    let page = Page { search: "UEUE".into(), sort, descending, offset, limit };
                    cut(&rows, &page).1.into_iter().cloned().collect::<Vec<_>>()
                };
                let whole = page(0, 1000);
                assert!(whole.is_sorted_by(|a, b| {
                    let order = a.against(b, sort);
                    order == if descending { Ordering::Greater } else { Ordering::Less }
                }));
                let pages: Vec<Row> = (0..100).step_by(9).flat_map(|offset| page(offset, 9)).collect();
                assert_eq!(pages, whole);
                assert_eq!(page(100, 9), [], "behind the last");
            }
        }
    }

    #[test]
    fn all_who_wait_for_a_list_are_told_when_the_store_is_away() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let (lists, asked) = (Lists::default(), &AtomicU64::new(0));
        let ask = |problem: fn() -> Problem| {
            lists.shared(async { Ok(()) }, async move {
                asked.fetch_add(1, Atomic::Relaxed);
                tokio::time::sleep(Duration::from_millis(20)).await;
                Err(problem())
            })
        };
        runtime.block_on(async {
            let away = || Problem::busy("away");
            let (first, second, third) = tokio::join!(ask(away), ask(away), ask(away));
            assert!(
                [first, second, third].iter().all(|told| told.as_ref().is_err_and(Problem::is_unavailable))
            );
            assert_eq!(asked.load(Atomic::Relaxed), 1);
            assert!(
                ask(away).await.is_err() && asked.load(Atomic::Relaxed) == 2,
                "who comes later asks anew"
            );
            let denied = || Problem::forbidden("a role is missing");
            let _ = tokio::join!(ask(denied), ask(denied));
            assert_eq!(asked.load(Atomic::Relaxed), 4, "that is said of one caller");
        });
    }

    #[test]
    fn a_search_counts_what_it_finds() {
        let rows: Vec<Row> = (1..=100).map(row).collect();
        let page = Page { search: "queue 9".into(), limit: 3, ..Page::default() };
        let (total, found) = cut(&rows, &page);
        assert_eq!((total, found.len(), found[0].id), (11, 3, 9));
    }
}
