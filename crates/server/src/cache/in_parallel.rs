//! The same work for several things at once, by threads that end with it: looking up and flushing servers is mostly
//! waiting.

use std::panic::resume_unwind;
use std::thread::{self, Builder};

/// Most threads at the same time.
const PARALLEL_MAX: usize = 32;

/// Does `work` for each element and returns the results in order. Where the system gives no thread, the caller's does
/// the work.
pub(super) fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    in_threads_of(Builder::new, items, work)
}

fn in_threads_of<T: Sync, R: Send>(
    builder: impl Fn() -> Builder,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let work = &work;
    let run_chunk = |chunk: &[T]| {
        thread::scope(|scope| {
            let begin = |item| builder().spawn_scoped(scope, move || work(item)).map_err(|_| item);
            let begun: Vec<_> = chunk.iter().map(begin).collect();
            let end = |begun: Result<thread::ScopedJoinHandle<'_, R>, &T>| match begun {
                Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                Err(item) => work(item),
            };
            begun.into_iter().map(end).collect::<Vec<_>>()
        })
    };
    items.chunks(PARALLEL_MAX).flat_map(run_chunk).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_are_in_order_however_many_there_are() {
        let items: Vec<usize> = (0..2 * PARALLEL_MAX + 1).collect();
        assert_eq!(in_parallel(&items, |item| *item), items);
    }

    #[test]
    fn where_there_is_no_thread_the_caller_does_the_work() {
        // No system has so much memory for a stack.
        let builder = || Builder::new().stack_size(1 << 50);
        assert!(builder().spawn(|| ()).is_err());
        let caller = thread::current().id();
        let done = in_threads_of(builder, &[1, 2, 3], |item| (*item, thread::current().id()));
        assert_eq!(done, [(1, caller), (2, caller), (3, caller)]);
    }
}
