//! The list of queues as a console reads it: searched, sorted, one page.
//!
//! A page shows fifty of perhaps 100,000 queues, and finding them needs a look at all. So a long list is fetched from
//! the store once and cached for two seconds, for all callers: typing into the search, sorting by another column,
//! turning pages and further consoles do not fetch it again. A list of up to [`UNCACHED_QUEUES_MAX`] queues is fetched
//! for every request, and a change made over HTTP invalidates the cached one. While the store is unavailable one caller
//! waits for it, and all others that arrive meanwhile get the same error.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Atomic};
use std::time::{Duration, Instant};

use posthaste_wire::reply::Value;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::auth::Caller;
use super::extract::boolean_text;
use super::problem::Problem;
use super::resp_command::RespCommand;

/// Up to this many queues a list costs next to nothing, and is not cached.
const UNCACHED_QUEUES_MAX: usize = 1000;

/// How long a longer list is cached; a console asks every three seconds.
const CACHED_FOR: Duration = Duration::from_secs(2);

/// Default and largest number of queues on a page.
const PAGE_DEFAULT: usize = 100;
const PAGE_MAX: usize = 1000;

/// A queue as QLIST shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ListedQueue {
    name: String,
    id: i64,
    messages: i64,
    bytes: i64,
    oldest_ms: i64,
    /// The name as it is searched and sorted by.
    #[serde(skip)]
    lowercase_name: String,
}

/// What a list is sorted by.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SortKey {
    #[default]
    Id,
    Name,
    Messages,
    Bytes,
    OldestMs,
}

/// The query of `GET /v1/queues`: which page of which queues.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Part of the name, in capitals or not.
    #[serde(default)]
    search: String,
    #[serde(default)]
    sort: SortKey,
    #[serde(default, deserialize_with = "boolean_text")]
    descending: bool,
    #[serde(default)]
    offset: usize,
    limit: Option<usize>,
}

/// One page of a list.
pub(super) struct QueuePage<'a> {
    /// How many queues the search finds, on all pages.
    pub(super) total: usize,
    pub(super) queues: Vec<&'a ListedQueue>,
}

/// The list of queues, cached for all callers.
#[derive(Default)]
pub(super) struct QueueListCache {
    last: Mutex<LastFetch>,
    /// How many changes were made over HTTP.
    changes: AtomicU64,
}

/// What was fetched last.
#[derive(Default)]
struct LastFetch {
    /// The last list, if it is long.
    cached: Option<CachedList>,
    /// The last time that the store was unavailable.
    failure: Option<Failure>,
}

struct CachedList {
    fetched_at: Instant,
    /// The value of `changes` before the list was fetched.
    changes: u64,
    queues: Arc<Vec<ListedQueue>>,
}

struct Failure {
    at: Instant,
    problem: Problem,
}

impl QueueListCache {
    /// Returns every queue, by id. A request that arrives while a list is being fetched waits for that list.
    ///
    /// # Errors
    /// What the server refused.
    pub(super) async fn get(&self, caller: &Caller) -> Result<Arc<Vec<ListedQueue>>, Problem> {
        let authorize = async { caller.require_administrator().await.map(drop) };
        let fetch = async {
            let answer = caller.ask(RespCommand::of(&["QLIST"])).await?;
            Ok(answer.value().parts().iter().map(ListedQueue::from_reply).collect())
        };
        self.get_or_fetch(authorize, fetch).await
    }

    /// Returns the cached list if `authorize` allows it, or else a new one. (QLIST itself refuses a caller that may not
    /// see it.)
    async fn get_or_fetch(
        &self,
        authorize: impl Future<Output = Result<(), Problem>>,
        fetch: impl Future<Output = Result<Vec<ListedQueue>, Problem>>,
    ) -> Result<Arc<Vec<ListedQueue>>, Problem> {
        let arrived_at = Instant::now();
        let mut last = self.last.lock().await;
        // Without this, each request that waits would wait for the store in turn.
        if let Some(failure) = &last.failure
            && failure.at >= arrived_at
        {
            return Err(failure.problem.clone());
        }
        let changes = self.changes.load(Atomic::Acquire);
        last.cached.take_if(|list| list.changes != changes || list.fetched_at.elapsed() > CACHED_FOR);
        if let Some(list) = &last.cached {
            authorize.await?;
            return Ok(Arc::clone(&list.queues));
        }
        let fetched = fetch.await;
        if let Err(problem) = &fetched
            && problem.is_unavailable()
        {
            last.failure = Some(Failure { at: Instant::now(), problem: problem.clone() });
        }
        let queues = Arc::new(fetched?);
        if queues.len() > UNCACHED_QUEUES_MAX {
            last.cached =
                Some(CachedList { fetched_at: Instant::now(), changes, queues: Arc::clone(&queues) });
        }
        Ok(queues)
    }

    /// Invalidates the cached list after a change that the next list must show.
    pub(super) fn invalidate(&self) {
        self.changes.fetch_add(1, Atomic::Release);
    }
}

impl ListedQueue {
    fn from_reply(queue: &Value<'_>) -> Self {
        let number = |field: &[u8]| queue.get(field).and_then(Value::as_integer).unwrap_or_default();
        let name = queue.get(b"name").and_then(Value::as_bytes).unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        Self {
            id: number(b"id"),
            messages: number(b"messages"),
            bytes: number(b"bytes"),
            oldest_ms: number(b"oldest_ms"),
            lowercase_name: name.to_lowercase(),
            name,
        }
    }

    /// Compares two queues for sorting. Of queues with equal figures the younger one is first, so in reverse order the
    /// older.
    fn compare(&self, other: &Self, key: SortKey) -> Ordering {
        let youngest_first = || other.id.cmp(&self.id);
        match key {
            SortKey::Id => self.id.cmp(&other.id),
            SortKey::Name => self.lowercase_name.cmp(&other.lowercase_name).then(self.id.cmp(&other.id)),
            SortKey::Messages => self.messages.cmp(&other.messages).then_with(youngest_first),
            SortKey::Bytes => self.bytes.cmp(&other.bytes).then_with(youngest_first),
            SortKey::OldestMs => self.oldest_ms.cmp(&other.oldest_ms).then_with(youngest_first),
        }
    }
}

/// Returns the page that a query asks for. Only the queues up to the page's end are sorted.
pub(super) fn select_page<'a>(all: &'a [ListedQueue], query: &ListQuery) -> QueuePage<'a> {
    let search = query.search.to_lowercase();
    let mut queues: Vec<&ListedQueue> =
        all.iter().filter(|queue| queue.lowercase_name.contains(&search)).collect();
    let total = queues.len();
    let compare = |a: &&ListedQueue, b: &&ListedQueue| {
        let order = a.compare(b, query.sort);
        if query.descending { order.reverse() } else { order }
    };
    let end = query.offset.saturating_add(query.limit.unwrap_or(PAGE_DEFAULT).min(PAGE_MAX));
    if end < total {
        queues.select_nth_unstable_by(end, compare);
        queues.truncate(end);
    }
    queues.sort_unstable_by(compare);
    queues.drain(..query.offset.min(queues.len()));
    QueuePage { total, queues }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(id: i64) -> ListedQueue {
        let name = format!("Queue {id}");
        let lowercase_name = name.to_lowercase();
        ListedQueue { name, id, messages: id % 7, bytes: -id, oldest_ms: 0, lowercase_name }
    }

    #[test]
    fn pages_side_by_side_are_the_sorted_list() {
        let all: Vec<ListedQueue> = (1..=100).map(queue).collect();
        for sort in [SortKey::Id, SortKey::Name, SortKey::Messages, SortKey::Bytes, SortKey::OldestMs] {
            for descending in [false, true] {
                let page = |offset, limit| {
                    let query =
                        ListQuery { search: "UEUE".into(), sort, descending, offset, limit: Some(limit) };
                    select_page(&all, &query).queues.into_iter().cloned().collect::<Vec<_>>()
                };
                let whole = page(0, 1000);
                assert!(whole.is_sorted_by(|a, b| {
                    let order = a.compare(b, sort);
                    order == if descending { Ordering::Greater } else { Ordering::Less }
                }));
                let pages: Vec<ListedQueue> =
                    (0..100).step_by(9).flat_map(|offset| page(offset, 9)).collect();
                assert_eq!(pages, whole);
                assert_eq!(page(100, 9), [], "behind the last");
            }
        }
    }

    #[test]
    fn all_who_wait_for_a_list_are_told_when_the_store_is_away() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let (cache, asked) = (QueueListCache::default(), &AtomicU64::new(0));
        let ask = |problem: fn() -> Problem| {
            cache.get_or_fetch(async { Ok(()) }, async move {
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
        let all: Vec<ListedQueue> = (1..=100).map(queue).collect();
        let query = ListQuery { search: "queue 9".into(), limit: Some(3), ..ListQuery::default() };
        let page = select_page(&all, &query);
        assert_eq!((page.total, page.queues.len(), page.queues[0].id), (11, 3, 9));
    }
}
