//! CLIENT: what a connection says of itself, which answers it wants, and what an administrator sees of others and does
//! to them.

use posthaste_wire::command::{ClientReply, KillFilter, KillTarget, Session as Command};
use posthaste_wire::encode::Encoder;
use posthaste_wire::fault::{Fault, Word};
use posthaste_wire::span::Span;

use super::mail::Mail;
use super::session::{Call, ReplyMode, Session, Step};
use crate::clients::Client;
use crate::grants::Role;

impl Session {
    /// Executes CLIENT with one of its subcommands.
    pub(super) fn execute_client(&mut self, call: &Call<'_>, out: &mut Vec<u8>) -> Step {
        let Call { client, shared, .. } = *call;
        let mut encoder = self.encoder(out);
        match call.command {
            Command::ClientKill(target) => match self.require_client_administration() {
                Ok(()) => return kill(*target, call, &mut encoder),
                Err(fault) => encoder.error(&fault),
            },
            Command::ClientId => encoder.integer(client.address.client.cast_signed()),
            Command::ClientGetName => match client.details().name.as_str() {
                "" => encoder.null(),
                name => encoder.bulk(name.as_bytes()),
            },
            Command::ClientInfo => encoder.bulk(format!("{}\n", client.line(shared.clock.now())).as_bytes()),
            Command::ClientList(target) => match self.require_client_administration() {
                Ok(()) => encoder.bulk(shared.clients.list(target, shared.clock.now()).as_bytes()),
                Err(fault) => encoder.error(&fault),
            },
            Command::ClientSetName(name) => {
                client.details().name = call.text(name);
                encoder.simple("OK");
            }
            Command::ClientSetInfo { attribute, value } => {
                if attribute.of(call.bytes).eq_ignore_ascii_case(b"lib-ver") {
                    client.details().library_version = call.text(value);
                } else {
                    client.details().library = call.text(value);
                }
                encoder.simple("OK");
            }
            Command::ClientReply(reply) => match reply {
                ClientReply::On => {
                    encoder.simple("OK");
                    self.reply_mode = ReplyMode::On;
                }
                ClientReply::Off => self.reply_mode = ReplyMode::Off,
                ClientReply::Skip if self.reply_mode == ReplyMode::On => {
                    self.reply_mode = ReplyMode::SkipNext
                }
                // A muted connection stays muted, and a skip is not counted twice.
                ClientReply::Skip => {}
            },
            _ => encoder.simple("OK"),
        }
        Step::Answered
    }

    /// Returns an error unless the connection may list other clients and close them.
    fn require_client_administration(&self) -> Result<(), Fault> {
        if !self.is_admitted() {
            return Err(Fault::new(Word::NoAuth, "log in before looking at other clients"));
        }
        self.grants().map_or(Ok(()), |grants| grants.check_all_queues(Role::Administer))
    }
}

/// Executes CLIENT KILL. The new form (filters) spares the connection that asks unless told otherwise, and answers a
/// count. The old form (a bare peer) answers OK or an error, and then closes the asking connection too if it is of that
/// peer.
fn kill(target: KillTarget, call: &Call<'_>, encoder: &mut Encoder<'_>) -> Step {
    let Call { bytes, client, shared, .. } = *call;
    let is_target = |client: &Client| match target {
        KillTarget::All(filter) => matches_filter(client, &filter, bytes),
        KillTarget::OldPeer(peer) => !client.is_inside && client.peer.as_bytes() == peer.of(bytes),
    };
    let others = shared.clients.find(|other| other.address != client.address && is_target(other));
    for other in &others {
        shared.mailboxes[other.address.thread].post(Mail::Kill(other.address));
    }
    match target {
        KillTarget::OldPeer(_) if is_target(client) => {
            encoder.simple("OK");
            return Step::Close;
        }
        KillTarget::OldPeer(_) if others.is_empty() => {
            encoder.error(&Fault::new(Word::Err, "No such client"));
        }
        KillTarget::OldPeer(_) => encoder.simple("OK"),
        KillTarget::All(filter) => {
            let closes_itself = !filter.spares_asker && is_target(client);
            encoder.integer((others.len() + usize::from(closes_itself)).cast_signed() as i64);
            if closes_itself {
                return Step::Close;
            }
        }
    }
    Step::Answered
}

/// Returns whether a connection matches the filter. Connections inside this process, which serve HTTP, match only a
/// filter that names their number or account: closing them by a common property would break off other users' HTTP
/// requests, whose outcome would then be unknown.
fn matches_filter(client: &Client, filter: &KillFilter, bytes: &[u8]) -> bool {
    let has_account = |name: Span| client.details().account.as_bytes() == name.of(bytes);
    let is_named = filter.id.is_some() || filter.account.is_some();
    !filter.is_of_no_type_here
        && (is_named || !client.is_inside)
        && filter.id.is_none_or(|id| client.address.client == id)
        && filter.peer.is_none_or(|peer| client.peer.as_bytes() == peer.of(bytes))
        && filter.account.is_none_or(has_account)
}
