//! Syncs that fail while the file system goes on: the page cache may lie then, so the store acknowledges nothing more
//! until it is opened again. What is durable can be read.

use crate::campaign::Campaign;
use crate::client::Client;
use crate::crew::rounds;
use crate::disk::Disk;
use crate::support::Server;
use crate::support::patience::wait_for;
use crate::tier::Tier;

#[test]
fn syncs_failed_below_the_embedded_store() {
    let Some(below) = Disk::of_mib(512) else { return };
    let Some(disk) = Disk::upon(&below, 256) else { return };
    let mut tier =
        Tier::start(&format!("embedded:{}", disk.path().join("store").display()), 1).without_limbo();
    let mut client = Client::connect(tier.server(0).addr()).expect("it runs");
    for request in [&["QCREATE", "probe"][..], &["SEND", "probe", "durable"]] {
        client.ask(request).expect("it runs");
    }
    let setting = tier.setting.clone();
    let mut campaign = Campaign::new("fdatasync fails (EIO), embedded store", 2);
    rounds(&mut campaign, 2, &setting, |_| {
        below.cut_power();
        refuses_changes_and_can_be_read(tier.server(0));
        tier.kill(0);
        disk.unmount();
        below.restart();
        disk.mount().expect("a disk that was there before");
        tier.start_again(0);
    });
    campaign.finish();
}

fn refuses_changes_and_can_be_read(server: &Server) {
    let mut client = Client::connect(server.addr()).expect("it runs");
    let mut send = || client.ask(&["SEND", "probe", "x"]).expect("it runs");
    wait_for("a sync fails", || if send().is_error("STORE") { Ok(()) } else { Err(server.log()) });
    for _ in 0..10 {
        let answer = send();
        assert!(answer.is_error("STORE"), "after a failed sync: {answer:?}");
    }
    let peeked = client.ask(&["PEEK", "QUEUE", "probe"]).expect("it runs");
    assert_eq!(peeked.body(), Some("durable"));
    let info = client.ask(&["QINFO", "probe"]).expect("it runs");
    assert!(info.is_error("STORE"), "memory may hold more: {info:?}");
}
