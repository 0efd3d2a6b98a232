//! Random commands of memcached's text protocol, valid and not.

use fastrand::Rng;

fn pick<'a>(rng: &mut Rng, of: &[&'a str]) -> &'a str {
    of[rng.usize(..of.len())]
}

fn pick_len(rng: &mut Rng, of: &[usize]) -> usize {
    of[rng.usize(..of.len())]
}

fn one_in(rng: &mut Rng, n: u32) -> bool {
    rng.u32(..n) == 0
}

fn key(rng: &mut Rng, may_be_too_long: bool) -> String {
    match rng.u32(..40) {
        0 => "k".repeat(250),
        1 if may_be_too_long => "k".repeat(pick_len(rng, &[251, 251, 300, 1500])),
        2 => "t\tb".into(),
        _ => pick(rng, &["a", "b", "c", "d", "e", "f", "n", "key0", "key1", "r0", "r1"]).into(),
    }
}

/// A key that is counted up and down. Of others servers remember whether they were read: counting may make a new item
/// of one, which depends on who else looks at it in that moment.
fn counter(rng: &mut Rng, may_be_too_long: bool) -> String {
    let key = key(rng, may_be_too_long);
    if key.starts_with('r') { "n".into() } else { key }
}

fn number(rng: &mut Rng) -> &'static str {
    if one_in(rng, 4) {
        pick(
            rng,
            &[
                "-1",
                "x",
                "",
                "4294967296",
                "99999999999999999999",
                "1x",
                "+3",
                "18446744073709551615",
                "100000",
                "7\t8",
                "-18446744073709551615",
            ],
        )
    } else {
        pick(rng, &["0", "1", "2", "3"])
    }
}

/// An expiry that does not run out during the test, or did before.
fn expiry(rng: &mut Rng) -> &'static str {
    if one_in(rng, 8) { pick(rng, &["-1", "x", "1000", "+2000", "", "2000\t8"]) } else { "0" }
}

fn noreply(rng: &mut Rng) -> &'static str {
    if one_in(rng, 4) { " noreply" } else { "" }
}

fn space(rng: &mut Rng) -> &'static str {
    if one_in(rng, 20) { "   " } else { " " }
}

fn line_end(rng: &mut Rng) -> &'static str {
    if one_in(rng, 10) { "\n" } else { "\r\n" }
}

/// Around the largest value that a server takes, and that a router passes on.
const LARGE: &[usize] = &[1_000_000, 1_048_400, 1_048_576, 1_048_577, 1_500_000];

/// So much data, in lines that are no commands, and not so long that whoever takes them for some hangs up.
fn lines(len: usize) -> Vec<u8> {
    (1..=len).map(|place| if place % 1_000 == 0 { b'\n' } else { b'v' }).collect()
}

fn data(rng: &mut Rng, most: usize) -> Vec<u8> {
    if one_in(rng, 20) {
        let most = rng.usize(2_000..9_000);
        return lines(if one_in(rng, 10) { pick_len(rng, LARGE) } else { most });
    }
    let len = rng.usize(..=most);
    if rng.bool() {
        return rng.u32(1..1000).to_string().into_bytes();
    }
    // Begins with a letter: with spaces around it, or zeros before it, a number becomes shorter when it is counted up.
    let letter = (0..len.min(1)).map(|_| b'a');
    letter.chain((1..len).map(|_| b"ab\r\n\0 0123END"[rng.usize(..13)])).collect()
}

fn flags(rng: &mut Rng, of: &[&str]) -> String {
    (0..rng.usize(..5)).map(|_| format!(" {}", pick(rng, of))).collect()
}

/// A command, or what is none. In a pipeline it is none after which memcached drops answers.
pub(crate) fn command(rng: &mut Rng, is_pipelined: bool) -> Vec<u8> {
    match rng.u32(..24) {
        0..=4 => get(rng, !is_pipelined),
        5..=10 => store(rng),
        11 | 12 if one_in(rng, 3) => count_down(rng),
        11 | 12 => {
            let (verb, key) = (pick(rng, &["incr", "decr"]), counter(rng, true));
            let delta = if verb == "decr" {
                "x"
            } else {
                pick(rng, &["0", "1", "33", "-1", "x", "", "1x", "+3", "7\t8"])
            };
            format!("{verb}{}{key} {delta}{}{}", space(rng), noreply(rng), line_end(rng)).into()
        }
        13 => {
            let (key, time) =
                (key(rng, true), if one_in(rng, 5) { format!(" {}", number(rng)) } else { String::new() });
            format!("delete {key}{time}{}{}", noreply(rng), line_end(rng)).into()
        }
        14 => format!("touch {} {}{}{}", key(rng, true), expiry(rng), noreply(rng), line_end(rng)).into(),
        15 | 16 => {
            let long = format!("O{}", "x".repeat(40));
            let of = ["v", "k", "f", "s", "t", "q", "Oab", "N1000", "R5", "T1000", "z", &long, "u", "c", "l"];
            let mut flags = flags(rng, &of);
            if flags.contains(&long) {
                // Where a miss would create the key a router refuses it at once, a server when it has.
                flags = flags.replace(" N1000", "");
            }
            format!("mg {}{flags}{}", key(rng, true), line_end(rng)).into()
        }
        17..=19 => meta_set(rng),
        20 => {
            let of = ["q", "Oab", "k", "C5", "I", "T1000", "x", "E7"];
            format!("md {}{}{}", key(rng, true), flags(rng, &of), line_end(rng)).into()
        }
        21 => {
            let of = [
                "q", "v", "t", "N0", "N1000", "J5", "J0", "D3", "D0", "MI", "M+", "Mx", "Oab", "k", "DX",
                "c", "C5", "T1000", "E7", "b", "z",
            ];
            if is_pipelined {
                return format!("ma {} DX{}", counter(rng, true), line_end(rng)).into();
            }
            format!("ma {}{}{}", counter(rng, true), flags(rng, &of), line_end(rng)).into()
        }
        22 if one_in(rng, 2) => {
            let key = pick(rng, &["r0", "r1"]);
            if rng.bool() {
                return format!("me {key}{}", line_end(rng)).into();
            }
            format!("mg {key} h{}{}", flags(rng, &["l", "t", "v", "s", "h"]), line_end(rng)).into()
        }
        22 => format!("mg Zm9v{}{}", flags(rng, &["b", "v", "k", "q"]), line_end(rng)).into(),
        _ => odd(rng, is_pipelined),
    }
}

/// Whatever is a command by itself, or none.
fn odd(rng: &mut Rng, is_pipelined: bool) -> Vec<u8> {
    if !is_pipelined && one_in(rng, 30) {
        return b"GET / HTTP/1.1\r\n".to_vec();
    }
    let odd = [
        "mn",
        "mn x",
        "verbosity 1",
        "verbosity",
        "verbosity x noreply",
        "flush_all",
        "flush_all 0",
        "flush_all noreply",
        "flush_all x",
        "flush_all 0 noreply",
        "bogus",
        "",
        "x",
        "mx",
        "mg",
        "ms",
        "get",
        "set a",
        "incr a",
        "shutdown",
        "   ",
        "\r",
        "mg !!! b",
        "get a\0b",
        "gat 0",
        "gats x a",
        "set a 0 0 noreply",
        "touch a noreply",
        "delete noreply",
        "me nothing",
        "ms a S2",
        "cas a 0 0 1",
    ];
    format!("{}{}", pick(rng, &odd), line_end(rng)).into()
}

/// A number, and less of it. It is gone afterwards if it has become shorter.
fn count_down(rng: &mut Rng) -> Vec<u8> {
    let (key, number, delta) = (counter(rng, false), rng.u64(..1000), rng.u64(..300));
    let (number, left) = (number.to_string(), number.saturating_sub(delta).to_string());
    let count = match rng.u32(..3) {
        0 => format!("decr {key} {delta}{}", noreply(rng)),
        1 => format!("ma {key} MD D{delta} v"),
        _ => format!("ma {key} D{delta} c M- t"),
    };
    let end = if left.len() < number.len() { format!("delete {key}\r\n") } else { String::new() };
    format!("set {key} 0 0 {}\r\n{number}\r\n{count}{}{end}", number.len(), line_end(rng)).into()
}

fn get(rng: &mut Rng, may_be_too_long: bool) -> Vec<u8> {
    let verb = pick(rng, &["get", "gets", "gat", "gats", "bget", "get"]);
    let expiry = if verb.starts_with("gat") { format!(" {}", expiry(rng)) } else { String::new() };
    let count = if one_in(rng, 10) { 30 } else { 4 };
    let keys: Vec<String> = (0..rng.usize(1..=count))
        .map(|place| {
            // A server has touched the keys before the one that is too long; a router has not.
            let may_be_too_long = may_be_too_long && (expiry.is_empty() || place == 0);
            format!("{}{}", space(rng), key(rng, may_be_too_long))
        })
        .collect();
    let line = format!("{verb}{expiry}{}{}", keys.concat(), line_end(rng));
    // Nor has it read them, and servers remember that.
    match keys.iter().position(|key| key.trim().len() > 250) {
        Some(place @ 1..) => format!("{line}get{}\r\n", keys[..place].concat()).into(),
        _ => line.into(),
    }
}

/// Lengths that are not those of the data, or spelled so that a router sends others.
const LENGTHS: &[&str] =
    &["-1", "2147483647", "x", "3", "4294967297", "1", "+3", "003", "\t3", "3\tz", "-0", "0000000000003"];

fn store(rng: &mut Rng) -> Vec<u8> {
    let verb = pick(rng, &["set", "set", "add", "replace", "append", "prepend", "cas"]);
    let data = data(rng, 20);
    let mut length = data.len().to_string();
    let is_large = data.len() >= LARGE[0];
    if one_in(rng, 12) && !is_large {
        length = pick(rng, LENGTHS).into();
    }
    let cas = if verb == "cas" { format!(" {}", number(rng)) } else { String::new() };
    let (flags, expiry) = (number(rng), expiry(rng));
    let before = if one_in(rng, 12) { "  " } else { "" };
    let line = format!(
        "{before}{verb} {} {flags} {expiry} {length}{cas}{}{}",
        key(rng, true),
        noreply(rng),
        line_end(rng)
    );
    // A server refuses what is too large before it sees where that ends.
    let end = if one_in(rng, 25) && !is_large { "xx" } else { "\r\n" };
    [line.as_bytes(), &data, end.as_bytes()].concat()
}

fn meta_set(rng: &mut Rng) -> Vec<u8> {
    let data = data(rng, 8);
    let of =
        ["F5", "T1000", "q", "Oab", "k", "ME", "MA", "MP", "MR", "MS", "MX", "I", "C5", "z", "Tx", "c", "E7"];
    let (key, of) =
        if one_in(rng, 5) { ("Zm9v".into(), &["b", "k", "q", "F3"][..]) } else { (key(rng, true), &of[..]) };
    let (mut length, mut end, mut flags) = (data.len().to_string(), "\r\n", flags(rng, of));
    if data.len() >= LARGE[0] {
        // A router refuses what is too large before it looks at the flags.
        flags = pick(rng, &["", " q", " k", " Oab F5", " T1000 ME"]).into();
    } else if one_in(rng, 20) {
        // What begins so is no flag. A router refuses it in memcached's words, without a look at the others.
        flags = pick(rng, &[" -", " q -", " F5 \tk c", " k [ Oab", " \u{e9}", " T1000 \u{7f}"]).into();
    } else if one_in(rng, 12) {
        // Where the flags are wrong too a server complains of them.
        flags = pick(rng, &["", " q", " k c", " Oab F5", " T1000 ME", " C5"]).into();
        match rng.u32(..2) {
            0 => length = pick(rng, LENGTHS).into(),
            _ => end = "xx",
        }
    }
    let line = format!("ms {key} {length}{flags}{}", line_end(rng));
    [line.as_bytes(), &data, end.as_bytes()].concat()
}
