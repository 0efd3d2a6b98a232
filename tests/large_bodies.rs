//! Over PostgreSQL a large body is read when it is given to somebody, and not because it stands in a queue that is
//! looked at.

#[path = "support/postgres.rs"]
mod postgres;
#[path = "support/mod.rs"]
mod support;

/// Bodies, and bytes of each: 83 of them fit into an answer of 8 MiB.
const BODIES: u64 = 300;
const BODY: u64 = 100_000;
const FITTING: u64 = 83;

struct Place {
    database: String,
}

impl Place {
    fn new() -> Self {
        let place = Self { database: postgres::shared().create_database() };
        place.sql("SELECT posthaste.login('a'), posthaste.create_queue('q')");
        place.sql(&format!(
            "INSERT INTO posthaste.message (ring, id, place, queue_id, sender_id, recipient_id, sent_ms, body)
             SELECT id % 3, id, posthaste.place_of(0, id), 1, 1, 0, posthaste.now_ms(), convert_to(repeat('x', {BODY}), 'utf8')
             FROM (SELECT nextval('posthaste.message_id') AS id FROM generate_series(1, {BODIES})) AS new"
        ));
        place
    }

    fn sql(&self, sql: &str) -> String {
        postgres::shared().psql(&self.database, sql)
    }

    /// How many pages a call touches, which is undone.
    fn pages(&self, call: &str) -> u64 {
        let plan = self.sql(&format!(
            "BEGIN; SET LOCAL search_path = posthaste; SET LOCAL enable_seqscan = off;
             EXPLAIN (ANALYZE, BUFFERS, TIMING off, FORMAT json) SELECT * FROM {call}; ROLLBACK"
        ));
        let plan: serde_json::Value =
            serde_json::from_str(&plan).unwrap_or_else(|error| panic!("{error}: {plan}"));
        let of = |what: &str| plan[0]["Plan"][what].as_u64().expect("pages are counted");
        of("Shared Hit Blocks") + of("Shared Read Blocks")
    }
}

/// PostgreSQL allows a text of less than 1 GiB, in which a dump writes a row and psql is given a column.
#[test]
fn the_largest_body_with_its_headers_fits_into_a_dump() {
    const HEADERS_MAX: u64 = 1 << 20;
    let place = Place { database: postgres::shared().create_database() };
    let body_max: u64 = place.sql("SELECT posthaste.body_bytes_max()").parse().expect("a number");
    assert!(2 * (body_max + HEADERS_MAX) < (1 << 30) - 1000, "{body_max} bytes are two characters each");
}

#[test]
fn what_does_not_fit_into_an_answer_is_not_read() {
    let place = Place::new();
    // A body takes 13 pages and some of an index, and whoever removes one writes it to its end.
    for (call, pages_each) in [
        ("peek_one(1, 5, 1, 1, null, false, false, 300)", 35),
        ("peek_one(1, 5, 1, null, 1, false, false, 300)", 35),
        ("pop_one(1, 5, 1, 1, null, false, false, 300, null)", 120),
        ("browse(1, 1, 0, 300)", 40),
    ] {
        let given = place
            .sql(&format!("BEGIN; SET LOCAL search_path = posthaste; SELECT count(*) FROM {call}; ROLLBACK"));
        assert_eq!(given, FITTING.to_string(), "{call}");
        let pages = place.pages(call);
        assert!(pages < FITTING * pages_each, "{call}: {pages} pages");
    }
}

#[test]
fn what_is_assigned_is_not_read_before_it_is_given() {
    let place = Place::new();
    for kind in ["p", "b", "f"] {
        let call =
            format!("choose('{kind}', 5, '{{1}}', 1, 1, '{{1}}', '{{1}}', '{{0}}', '{{0}}', '{{300}}')");
        let pages = place.pages(&call);
        assert!(pages < BODIES * 4, "{call}: {pages} pages");
    }
}

/// As in the other stores: the first message is always shown, and no other that is too much with it, be the first empty.
#[test]
fn an_empty_body_before_one_that_fills_an_answer_is_browsed_alone() {
    let place = Place { database: postgres::shared().create_database() };
    place.sql("SELECT posthaste.login('a'), posthaste.create_queue('q')");
    place.sql("SELECT posthaste.send('a', 'q', ''), posthaste.send('a', 'q', repeat('x', 8388609)), posthaste.send('a', 'q', 'y')");
    let browsed = |after: u64| {
        let sql = "SET search_path = posthaste; SELECT string_agg(number::text, ' ') FROM browse(1, 1,";
        place.sql(&format!("{sql} {after}, 300)"))
    };
    assert_eq!([0, 1, 2].map(browsed), ["1", "2", "3"]);
}
