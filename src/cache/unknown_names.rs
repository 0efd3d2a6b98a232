//! `posthaste cache --check`: server names that cannot be resolved, all of them at once.

use posthaste_server::cache::backend::Backend;
use posthaste_server::cache::groups::Group;
use posthaste_server::cache::layout::Layout;
use posthaste_server::cache::resolver::Resolver;

/// What a check of names does not tell.
const MEANING: &str = "a tier that finds any server starts, and counts those as away until they are found";

/// Returns the error of a file in which names cannot be resolved, if there are any; `first` is the error about the first
/// mistake in it, which stays alone if it is about something else.
pub(super) fn with_others(first: &str, layout: &Layout, resolver: &Resolver) -> String {
    let unknown = unknown(layout, resolver);
    if !unknown.iter().any(|error| first.contains(&**error)) {
        return first.to_owned();
    }
    let others = unknown.into_iter().filter(|error| !first.contains(&**error));
    [first.to_owned()].into_iter().chain(others).chain([MEANING.to_owned()]).collect::<Vec<_>>().join("; ")
}

/// Checks that all names of a layout can be resolved.
///
/// # Errors
/// Each that cannot, in one line.
pub(super) fn refuse(layout: &Layout, resolver: &Resolver) -> Result<(), String> {
    let mut unknown = unknown(layout, resolver);
    if unknown.is_empty() {
        return Ok(());
    }
    unknown.push(MEANING.to_owned());
    Err(unknown.join("; "))
}

/// Returns why each server or group of servers is not found whose name cannot be resolved.
fn unknown(layout: &Layout, resolver: &Resolver) -> Vec<String> {
    let mut unknown = Vec::new();
    for member in layout.pools.iter().flat_map(|pool| &pool.members) {
        let found = match Group::of(&member.address) {
            Some(group) => group.and_then(|group| group.resolve(resolver)).map(drop),
            None => {
                Backend::parse_by(&member.address, resolver).and_then(|backend| backend.address()).map(drop)
            }
        };
        unknown.extend(found.err().filter(|error| !unknown.contains(error)));
    }
    unknown
}
