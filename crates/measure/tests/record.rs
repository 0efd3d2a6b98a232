//! The record of a run, read back by other libraries than those that wrote it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use parquet::file::reader::SerializedFileReader;
use parquet::record::{Field, RowAccessor as _};
use posthaste_measure::{
    Clock, Counted, Ended, Ending, Event, Events, Meter, Noted, Record, RecordError, RunInfo, Scheme, Stamps,
    Trail, WindowEnd,
};

const TIER: Scheme = Scheme::tier(&["send", "pop", "login"], Some("statement"))
    .counting(Counted { each: "reads", mean: "reads_mean" });

fn info(clock: Clock) -> RunInfo {
    RunInfo {
        command: vec!["posthaste".into(), "queue".into()],
        version: "1.2.3".into(),
        options: serde_json::json!({"workers": 8}),
        window: Duration::from_secs(1),
        clock,
        scheme: TIER,
        requests: true,
    }
}

/// Records a run of three windows: requests of two kinds, nothing, requests that were all refused.
fn recorded(dir: &Path) -> Vec<WindowEnd> {
    let clock = Clock::start();
    let record = Record::create(dir, info(clock), Events::kept(clock)).unwrap();
    let meter = Meter::new(TIER, Duration::from_secs(1), clock, record.backlog());
    let mut recorder = meter.recorder();
    let mut ends = Vec::new();
    for window in 0..3_u64 {
        for i in 1..=40_u64 {
            let (at, step) = (1_000 + i, 700 * i * i);
            let served = Stamps {
                received: at,
                enqueued: at,
                dequeued: at + step,
                sent: at + step,
                answered: at + 2 * step,
                replied: at + 3 * step,
            };
            let refused = Stamps { received: at, replied: at + step, ..Stamps::default() };
            match window {
                0 => recorder.note(Noted {
                    client: 7,
                    reported_ns: step,
                    request_bytes: 50,
                    answer_bytes: 5,
                    counted: 2 + (i % 2) as u32,
                    ..Noted::new((i % 2) as u8, Ending::Ok, served)
                }),
                1 => {}
                _ => recorder.note(Noted::new(0, Ending::Error, refused)),
            }
        }
        recorder.flush();
        // Several of the system's ticks, so that the machine's time can be counted.
        thread::sleep(Duration::from_millis(50));
        record.event(Event::new(window * 1_500_000_000, 2_500_000, "store", "compaction, \"large\""));
        let end = meter.turn(&[("line_length", window), ("connections", 5)]);
        record.window(&end).unwrap();
        ends.push(end);
    }
    assert_eq!(record.finish().unwrap(), Ended { recorded: 80, not_recorded: 0 });
    ends
}

fn lines(dir: &Path, name: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(dir.join(name)).unwrap();
    assert!(text.ends_with('\n'), "{name} ends with a whole line");
    text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

#[test]
fn the_windows_are_rows_of_equal_width_with_units_in_their_columns() {
    let dir = tempfile::tempdir().unwrap();
    let ends = recorded(dir.path());
    let rows = lines(dir.path(), "windows.csv");
    let columns: BTreeMap<&str, usize> =
        rows[0].iter().enumerate().map(|(i, name)| (name.as_str(), i)).collect();
    assert_eq!(columns.len(), rows[0].len(), "no column twice");
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    let cell = |row: usize, name: &str| rows[row][columns[name]].as_str();

    let kinds: Vec<_> = (1..rows.len()).map(|row| cell(row, "kind")).collect();
    assert_eq!(kinds, ["send", "pop", "all", "all", "send", "all"]);
    let requests: Vec<_> = (1..rows.len()).map(|row| cell(row, "requests")).collect();
    assert_eq!(requests, ["20", "20", "40", "0", "40", "40"]);
    let response = ends[0].window.figures.all.response;
    assert_eq!(cell(3, "response_mean_us"), format!("{:.3}", response.mean_us));
    assert!(response.stdev_us > 0.0);
    assert_eq!(cell(3, "response_stdev_us"), format!("{:.3}", response.stdev_us));
    assert_eq!(
        (cell(1, "reads_mean"), cell(2, "reads_mean"), cell(3, "reads_mean")),
        ("2.000", "3.000", "2.500")
    );
    assert_eq!((cell(4, "reads_mean"), cell(6, "reads_mean")), ("", "0.000"));
    assert_eq!(cell(4, "response_p99_us"), "", "no request, no figure");
    assert_eq!((cell(5, "errors"), cell(5, "service_count"), cell(5, "service_max_us")), ("40", "0", ""));
    assert_eq!((cell(1, "line_length"), cell(3, "line_length"), cell(6, "line_length")), ("", "0", "2"));
    assert_eq!(cell(6, "connections"), "5");
}

#[test]
fn the_histogram_log_gives_every_count_back() {
    let dir = tempfile::tempdir().unwrap();
    let ends = recorded(dir.path());
    let log = fs::read(dir.path().join("latency.hlog")).unwrap();
    assert!(log.starts_with(b"#[Histogram log format version 1.3]\n"));

    let mut expected = Vec::new();
    for tally in ends.iter().flat_map(|end| end.tallies.active()) {
        let (kind, distributions) = (tally.0, tally.1.distributions());
        for (stage, distribution) in distributions.filter(|(_, d)| d.count() > 0) {
            expected.push((format!("{kind}/{stage}"), distribution.histogram().clone()));
        }
    }
    let found: Vec<_> =
        IntervalLogIterator::new(&log).filter_map(|entry| read_back(entry.unwrap())).collect();
    assert_eq!(found.len(), 9, "two kinds with four distributions, one with refusals only");
    assert!(found == expected);
}

/// Returns tag and histogram of a line.
fn read_back(entry: LogEntry<'_>) -> Option<(String, Histogram<u64>)> {
    let LogEntry::Interval(interval) = entry else { return None };
    let bytes = from_base64(interval.encoded_histogram());
    let histogram = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
    Some((interval.tag()?.as_str().to_owned(), histogram))
}

fn from_base64(text: &str) -> Vec<u8> {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    let (mut bits, mut held) = (0_u32, 0);
    for digit in text.trim_end_matches('=').chars() {
        bits = bits << 6 | DIGITS.find(digit).unwrap() as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    bytes
}

#[test]
fn run_json_tells_what_ran_where_and_when() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path());
    let text = fs::read_to_string(dir.path().join("run.json")).unwrap();
    let run: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(run["command"], serde_json::json!(["posthaste", "queue"]));
    assert_eq!((&run["version"], &run["options"]["workers"]), (&"1.2.3".into(), &8.into()));
    assert!(run["machine"]["cores"].as_u64().unwrap() > 0);
    assert!(run["start_unix_ms"].as_u64().unwrap() > 1_700_000_000_000);
    assert!(run["start_monotonic_ns"].is_u64() && run["end_s"].is_f64());
    assert_eq!(run["units"]["_us"], "microseconds");
    assert_eq!((&run["requests_recorded"], &run["requests_not_recorded"]), (&80.into(), &0.into()));
    let clocks = |name: &str| (run[name]["unix_ns"].as_u64(), run[name]["monotonic_ns"].as_u64());
    assert!(clocks("end_clocks") > clocks("start_clocks") && clocks("start_clocks").1.is_some());
    assert!(!dir.path().join("run.json.new").exists());
}

#[test]
fn a_run_that_was_killed_has_no_end_and_whole_lines() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::start();
    let record = Record::create(dir.path(), info(clock), Events::kept(clock)).unwrap();
    let meter = Meter::new(TIER, Duration::from_secs(1), clock, record.backlog());
    record.window(&meter.turn(&[])).unwrap();
    std::mem::forget(record);
    let text = fs::read_to_string(dir.path().join("run.json")).unwrap();
    assert!(serde_json::from_str::<serde_json::Value>(&text).unwrap()["end_s"].is_null());
    assert_eq!(lines(dir.path(), "windows.csv").len(), 2);
    assert_eq!(lines(dir.path(), "system.csv").len(), 2);
}

/// Returns the rows of `requests.parquet` by column.
fn requests(dir: &Path) -> Vec<BTreeMap<String, Field>> {
    let file = fs::File::open(dir.join("requests.parquet")).unwrap();
    let rows = SerializedFileReader::new(file).unwrap().into_iter();
    rows.map(|row| {
        row.unwrap().get_column_iter().map(|(name, field)| (name.clone(), field.clone())).collect()
    })
    .collect()
}

#[test]
fn every_request_is_a_row_with_its_stamps_in_order_and_empty_cells_where_it_did_not_pass() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path());
    let rows = requests(dir.path());
    assert_eq!(rows.len(), 80);
    let expected = [
        ("kind", Field::Str("pop".into())),
        ("ending", Field::Str("ok".into())),
        ("client", Field::Long(7)),
        ("request_bytes", Field::Int(50)),
        ("answer_bytes", Field::Int(5)),
        ("received_ns", Field::Long(1_001)),
        ("enqueued_ns", Field::Long(1_001)),
        ("dequeued_ns", Field::Long(1_701)),
        ("sent_ns", Field::Long(1_701)),
        ("answered_ns", Field::Long(2_401)),
        ("replied_ns", Field::Long(3_101)),
        ("statement_ns", Field::Long(700)),
        ("reads", Field::Int(3)),
    ];
    assert_eq!(rows[0], expected.map(|(name, field)| (name.to_owned(), field)).into());
    let refused = &rows[79];
    assert_eq!((&refused["ending"], &refused["sent_ns"]), (&Field::Str("error".into()), &Field::Null));
    assert_eq!(refused["replied_ns"], Field::Long(1_040 + 700 * 1_600));
}

#[test]
fn more_requests_than_a_page_and_a_row_group_hold_come_back_in_their_order() {
    const REQUESTS: u64 = 70_000;
    // Some share their stamps with the one before, some lack stamps, kinds and lengths change now and then.
    let noted = |i: u64| {
        let at = 1_000 * (i - i % (1 + i / 100 % 17));
        let passed = |offset: u64| if (i / 1_000).is_multiple_of(3) { 0 } else { at + offset };
        let (enqueued, answered) = (passed(5), passed(300 + i % 7));
        let stamps = Stamps {
            received: at,
            enqueued,
            dequeued: passed(9),
            sent: passed(11),
            answered,
            replied: at + 400,
        };
        Noted {
            client: 1 + i % 5,
            reported_ns: if i.is_multiple_of(11) { 0 } else { 40 },
            request_bytes: (i / 50) as u32,
            answer_bytes: 9,
            counted: (i % 2) as u32,
            ..Noted::new((i / 30 % 3) as u8, [Ending::Ok, Ending::Null][(i / 7 % 2) as usize], stamps)
        }
    };
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::start();
    let record = Record::create(dir.path(), info(clock), Events::kept(clock)).unwrap();
    let meter = Meter::new(TIER, Duration::from_secs(1), clock, record.backlog());
    let mut recorder = meter.recorder();
    let mut together = Vec::new();
    for i in 0..REQUESTS {
        together.push(noted(i));
        if i.is_multiple_of(300) {
            recorder.note_all(&mut together);
            assert!(together.is_empty());
        }
    }
    recorder.note_all(&mut together);
    drop(recorder);
    record.window(&meter.turn(&[])).unwrap();
    assert_eq!(record.finish().unwrap(), Ended { recorded: REQUESTS, not_recorded: 0 });

    let file = fs::File::open(dir.path().join("requests.parquet")).unwrap();
    let mut rows = 0;
    for (i, row) in (0..).zip(SerializedFileReader::new(file).unwrap()) {
        let row = row.unwrap();
        let number = |place: usize| match row.get_column_iter().nth(place).unwrap().1 {
            Field::Null => 0,
            Field::Int(number) => u64::from(number.cast_unsigned()),
            Field::Long(number) => number.cast_unsigned(),
            other => panic!("{other:?}"),
        };
        let Noted { client, reported_ns, request_bytes, answer_bytes, counted, kind, ending, trail } =
            noted(i);
        assert_eq!(row.get_string(0).unwrap(), ["send", "pop", "login"][usize::from(kind)]);
        assert_eq!(row.get_string(1).unwrap(), ending.name());
        assert_eq!([2, 3, 4].map(number), [client, request_bytes.into(), answer_bytes.into()], "row {i}");
        let stamps = Trail::from(Stamps {
            received: number(5),
            enqueued: number(6),
            dequeued: number(7),
            sent: number(8),
            answered: number(9),
            replied: number(10),
        });
        assert_eq!(stamps, trail, "row {i}");
        assert_eq!([11, 12].map(number), [reported_ns, counted.into()], "row {i}");
        rows += 1;
    }
    assert_eq!(rows, REQUESTS);
}

#[test]
fn the_rows_of_the_requests_add_up_to_the_windows() {
    let dir = tempfile::tempdir().unwrap();
    let ends = recorded(dir.path());
    let number = |field: &Field| if let Field::Long(number) = field { *number } else { panic!("{field:?}") };
    let rows = requests(dir.path());
    let responses = rows.iter().map(|row| number(&row["replied_ns"]) - number(&row["received_ns"]));
    let windows = ends.iter().map(|end| &end.window.figures.all);
    let expected: f64 = windows.map(|all| all.response.mean_us * 1000.0 * all.requests as f64).sum();
    assert!((responses.sum::<i64>() as f64 - expected).abs() < 1.0);
}

#[test]
fn the_system_table_has_a_plausible_row_per_window() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path());
    let rows = lines(dir.path(), "system.csv");
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    let column = |name: &str| rows[0].iter().position(|column| column == name).unwrap();
    let number = |row: usize, name: &str| rows[row][column(name)].parse::<f64>().unwrap();
    assert!(number(1, "cpu_s") > 0.0 && number(1, "cpu_s") < 60.0);
    #[cfg(target_os = "linux")]
    {
        assert!(number(1, "rss_bytes") > 1e5);
        assert!(number(1, "threads") >= 1.0 && number(1, "open_files") >= 5.0);
        assert!((0.0..=1.0).contains(&number(1, "machine_idle_share")));
        let switched: f64 = (1..4).map(|row| number(row, "machine_context_switches")).sum();
        assert!(
            switched > 0.0
                && number(1, "machine_interrupts") >= 0.0
                && number(1, "machine_load_average") >= 0.0
        );
    }
    let ends = number(1, "start_s") + number(1, "length_s");
    assert!((ends - number(2, "start_s")).abs() < 1e-5, "rows follow on each other");
}

#[test]
fn events_are_written_with_their_time_length_source_and_kind() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path());
    let text = fs::read_to_string(dir.path().join("events.csv")).unwrap();
    let rows: Vec<_> = text.lines().collect();
    assert_eq!(rows[0], "start_s,duration_ms,source,kind");
    assert_eq!(rows[2], "1.500000,2.500,store,\"compaction, \"\"large\"\"\"");
    assert_eq!(rows.len(), 4);
}

#[test]
fn a_directory_that_holds_a_run_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path());
    let before = fs::read(dir.path().join("windows.csv")).unwrap();
    let error = Record::create(dir.path(), info(Clock::start()), Events::default()).unwrap_err();
    assert!(matches!(error, RecordError::Taken { .. }));
    assert!(error.to_string().contains("name another directory"), "{error}");
    assert_eq!(fs::read(dir.path().join("windows.csv")).unwrap(), before);
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Record::create(&file.join("run"), info(Clock::start()), Events::default()).unwrap_err();
    assert!(error.to_string().contains("file/run"), "{error}");
}
