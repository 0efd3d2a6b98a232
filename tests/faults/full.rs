//! Full disks: what is refused did not happen, what can be taken is given, and with room the service returns by itself.

use crate::campaign::Campaign;
use crate::client::{Answer, Broken, Client};
use crate::crew::rounds;
use crate::disk::Disk;
use crate::postgres::Postgres;
use crate::support::Server;
use crate::support::patience::{RECOVERY, wait_within};
use crate::tier::Tier;

#[test]
fn disks_filled_below_the_embedded_store() {
    // Answers remembered for keys are live for ten minutes. Segments that they fill are not given back before, and with
    // the ballast gone there must be room for others.
    let Some(disk) = Disk::of_mib(512) else { return };
    let mut tier = Tier::start(&format!("embedded:{}", disk.path().join("store").display()), 1);
    make_queue(tier.server(0));
    let setting = tier.setting.clone();
    let mut campaign = Campaign::new("disk full, embedded store", 2);
    rounds(&mut campaign, 2, &setting, |dice| {
        disk.fill(dice.u64(..100_000));
        fill(tier.server(0));
        // What is there can be taken.
        let popped = ask(tier.server(0), &["POP", "QUEUE", "filling"]);
        assert!(popped.body().is_some(), "{popped:?}");
        if dice.bool() {
            tier.kill(0);
            tier.start_again(0);
        }
        disk.give_room();
        empty(tier.server(0));
    });
    campaign.finish();
}

#[test]
fn disks_filled_below_postgresql() {
    let Some(disk) = Disk::of_mib(384) else { return };
    let mut postgres = Postgres::start_below(disk.path(), &["max_wal_size=64MB"]);
    let tier = Tier::start(&postgres.url(&postgres.create_database()), 1);
    make_queue(tier.server(0));
    let mut campaign = Campaign::new("disk full, PostgreSQL", 1);
    rounds(&mut campaign, 2, &tier.setting, |_| {
        disk.fill(0);
        fill(tier.server(0));
        disk.give_room();
        // Without room for its log PostgreSQL stops, and its operator starts it again.
        if postgres.has_ended() {
            postgres.start_again();
        }
        tier.wait_until_back();
        empty(tier.server(0));
    });
    campaign.finish();
}

/// Makes the queue for what is too much: later there may be no room even for that.
fn make_queue(server: &Server) {
    let made = ask(server, &["QCREATE", "filling"]);
    assert!(made.integer().is_some(), "{made:?}");
}

/// Sends until that is refused, many at once and then one by one.
fn fill(server: &Server) {
    let body = "x".repeat(60_000);
    let many = [&["SENDMANY", "filling"][..], &[body.as_str(); 16]].concat();
    for words in [&many[..], &["SEND", "filling", &body]] {
        wait_within(RECOVERY, "the disk is full", || match ask(server, words) {
            Answer::Error(_) => Ok(()),
            answer => Err(format!("{answer:?}")),
        });
    }
}

/// Takes out what `fill` sent, and waits until as much can be sent again.
fn empty(server: &Server) {
    let insist = |words: &[&str]| {
        wait_within(RECOVERY, format!("there is room again for {words:?}"), || {
            ask(server, words).integer().ok_or_else(|| server.log())
        })
    };
    insist(&["QPURGE", "filling"]);
    insist(&["SEND", "filling", "x"]);
}

fn ask(server: &Server, words: &[&str]) -> Answer {
    let answer = Client::connect(server.addr()).and_then(|mut client| client.ask(words));
    answer.unwrap_or_else(|Broken| panic!("{} gets no answer; the server said:\n{}", words[0], server.log()))
}
