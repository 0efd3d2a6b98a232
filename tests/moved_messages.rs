//! Messages that are moved, set aside or changed while others look for them: nobody misses one that is there all the time.

#[path = "support/client.rs"]
mod client;
#[path = "support/place.rs"]
mod place;
#[path = "support/postgres.rs"]
mod postgres;
#[path = "support/session.rs"]
mod session;
#[path = "support/mod.rs"]
mod support;

use place::Place;

/// As a server gives it that does not look again whether a row is the one that was asked for.
#[test]
fn a_row_that_was_changed_while_it_was_being_locked_is_lost() {
    let place = Place::new();
    place.as_owner(
        "SELECT posthaste.create_queue('q'), posthaste.send('bob', 'q', n::text) FROM generate_series(1, 3) AS n",
    );
    let hold = "SELECT (posthaste.hold(
            ROW(c.places, array_fill(1, ARRAY[3]), null, null, c.tids, null, null, null, null)::posthaste.hands,
            ROW(array_fill(1, ARRAY[3]), c.places, '(77,7)'::tid || c.tids[2:], array_fill(2, ARRAY[3]), null)
                ::posthaste.candidates)).lost = c.places[1:1]
        FROM (SELECT array_agg(place ORDER BY place) AS places, array_agg(ctid ORDER BY place) AS tids
            FROM posthaste.message_aside) AS c";
    let as_older = "CREATE OR REPLACE FUNCTION posthaste.gives_changed_rows() RETURNS boolean LANGUAGE sql AS 'SELECT true'";
    place.as_owner(as_older);
    let hold = format!("SET search_path = posthaste; {hold}");
    assert_eq!(place.as_owner(&hold), "t", "the first is not the row that was chosen");
}
