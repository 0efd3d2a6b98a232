//! One HTTP connection to a queue tier in one thread, from bytes in any pieces to the bytes of its answers.

#![allow(dead_code, reason = "each program uses its own part of this")]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use posthaste_server::http::{converse, queue_routes};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use crate::by_hand::Tier;

/// Holds all that is said either way, so that neither side waits.
const ROOM: usize = 8 << 20;

/// Turns after which who has not been answered is waiting.
const TURNS: usize = 300;

/// A runtime for conversations.
pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Says these bytes in these pieces and hears everything until the connection ends; who waits is not waited for.
pub(crate) fn ask(runtime: &Runtime, tier: &mut Tier, pieces: &[&[u8]]) -> Vec<u8> {
    let heard = runtime.block_on(async {
        let (mut ours, theirs) = tokio::io::duplex(ROOM);
        let (stop, stopped) = watch::channel(());
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let mut conversation =
            Box::pin(converse(theirs, here, queue_routes(Arc::clone(&tier.house)), stopped));
        let mut is_over = false;
        for piece in pieces.iter().copied().map(Some).chain([None]) {
            if let Some(piece) = piece {
                // Who was refused is not listened to.
                let _ = ours.write_all(piece).await;
            }
            let turns = if piece.is_none() { TURNS } else { 3 };
            for _ in 0..turns {
                tokio::select! {
                    biased;
                    () = conversation.as_mut(), if !is_over => is_over = true,
                    () = turn(tier) => {}
                }
            }
        }
        let _ = ours.shutdown().await;
        for _ in 0..TURNS {
            if is_over {
                break;
            }
            tokio::select! {
                biased;
                () = conversation.as_mut() => is_over = true,
                () = turn(tier) => {}
            }
        }
        drop(stop);
        drop(conversation);
        let mut heard = Vec::new();
        ours.read_to_end(&mut heard).await.expect("memory does not fail");
        heard
    });
    // Connections inside wait in the runtime to be closed.
    runtime.block_on(tokio::task::yield_now());
    tier.begin_anew();
    heard
}

/// Says this and hears everything until the server ends the connection, however long that takes.
pub(crate) fn hear(runtime: &Runtime, tier: &mut Tier, said: &[u8]) -> Vec<u8> {
    runtime.block_on(async {
        let (mut ours, theirs) = tokio::io::duplex(ROOM);
        let (_stop, stopped) = watch::channel(());
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let mut conversation =
            Box::pin(converse(theirs, here, queue_routes(Arc::clone(&tier.house)), stopped));
        ours.write_all(said).await.expect("there is room");
        loop {
            tokio::select! {
                biased;
                () = conversation.as_mut() => break,
                () = turn(tier) => {}
            }
        }
        drop(conversation);
        let mut heard = Vec::new();
        ours.read_to_end(&mut heard).await.expect("memory does not fail");
        heard
    })
}

async fn turn(tier: &mut Tier) {
    tier.turn();
    tier.work();
    tokio::task::yield_now().await;
}

/// The status and the body of each answer. Whatever was asked, they are whole, and none says that we failed.
pub(crate) fn answers(heard: &[u8]) -> Vec<(u16, Vec<u8>)> {
    answers_to(heard, false)
}

/// The same of requests of which some may be HEAD.
pub(crate) fn answers_to(heard: &[u8], asks_for_heads: bool) -> Vec<(u16, Vec<u8>)> {
    let (mut rest, mut found) = (heard, Vec::new());
    while !rest.is_empty() {
        let end = rest.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head");
        let (head, behind) = (String::from_utf8_lossy(&rest[..end]).into_owned(), &rest[end + 4..]);
        let status = head.strip_prefix("HTTP/1.").and_then(|head| head.get(2..5)?.parse::<u16>().ok());
        let status = status.unwrap_or_else(|| panic!("no status: {head}"));
        assert!(![500, 502, 504].contains(&status), "{head}");
        let field = |name: &str| {
            let fields = head.lines().filter_map(|line| line.split_once(':'));
            let value = fields.into_iter().find(|(field, _)| field.eq_ignore_ascii_case(name));
            value.map(|(_, value)| value.trim().to_owned())
        };
        let length: usize = field("content-length").map_or(0, |length| length.parse().expect("a number"));
        // The answer to HEAD has a length and no body.
        let is_bare = asks_for_heads && (behind.len() < length || behind.starts_with(b"HTTP/1."));
        assert!(is_bare || behind.len() >= length, "half a body: {head}");
        let (body, next) = behind.split_at(if is_bare { 0 } else { length });
        if !is_bare && field("content-type").is_some_and(|kind| kind == "application/json") {
            let json: serde_json::Value = serde_json::from_slice(body).expect("JSON");
            let message = json["message"].as_str().unwrap_or_default();
            assert!(status < 400 || !message.is_empty() && !message.contains('\n'), "{status}: {json}");
        }
        found.push((status, body.to_vec()));
        rest = next;
    }
    found
}
