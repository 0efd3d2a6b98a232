//! The rules of a pool: what its fields say, else the defaults, as far as these make sense together.

use posthaste_server::cache::groups::Group;
use posthaste_server::cache::layout::{Layout, MemberPlan, PoolPlan, Source};
use posthaste_server::cache::rules::{Answer, KeyPart, ReadRepair, Reads, Rules, Writes};

use crate::placed::{Fields, FileError};

/// Longest salt; every key is copied and hashed with it.
pub(crate) const SALT_BYTES_MAX: usize = 200;

/// The rules that these fields say.
pub(super) fn rules(fields: &Fields<'_, '_>, defaults: &Rules) -> Result<Rules, FileError> {
    let writes = fields.parsed("writes")?.unwrap_or(defaults.writes);
    let reads = match (writes, fields.parsed("reads")?) {
        (Writes::Owner, None | Some(Reads::Owner)) => Reads::Owner,
        (Writes::Owner, Some(reads)) => {
            let what = format!(
                "reads = \"{reads}\" would look where a key was not written: with writes = \"owner\" only its owner has it"
            );
            return Err(FileError::new(fields.place("reads"), what));
        }
        (Writes::All, Some(reads)) => reads,
        (Writes::All, None) if defaults.writes == Writes::All => defaults.reads,
        (Writes::All, None) => Reads::default(),
    };
    let key_part = match (fields.text("hash-tag")?, fields.text("hash-stop")?) {
        (None, None) => defaults.key_part.clone(),
        (None, Some(stop)) if !stop.is_empty() => KeyPart::Before(stop.as_bytes().to_vec()),
        (None, Some(_)) => {
            return Err(FileError::new(fields.place("hash-stop"), "hash-stop: write what ends the part"));
        }
        (Some(tag), None) => match tag.as_bytes() {
            [open, close] => KeyPart::Tag { open: *open, close: *close },
            _ => {
                return Err(FileError::new(
                    fields.place("hash-tag"),
                    "hash-tag: write two characters, \"{}\" for example",
                ));
            }
        },
        (Some(_), Some(_)) => {
            return Err(FileError::new(
                fields.place("hash-stop"),
                "write either hash-tag or hash-stop, not both",
            ));
        }
    };
    Ok(Rules {
        writes,
        reads,
        multiget: fields.parsed("multiget")?.unwrap_or(defaults.multiget),
        hash: fields.parsed("hash")?.unwrap_or(defaults.hash),
        key_part,
        salt: salt(fields)?,
        answer: fields.parsed("answer")?.unwrap_or(if writes == Writes::All {
            defaults.answer
        } else {
            Answer::All
        }),
        read_repair: read_repair(fields, writes)?,
        get_errors: fields.parsed("get-errors")?.unwrap_or(defaults.get_errors),
    })
}

/// What is put behind a key before it is hashed.
fn salt(fields: &Fields<'_, '_>) -> Result<Vec<u8>, FileError> {
    match fields.text("hash-salt")? {
        None => Ok(Vec::new()),
        Some(salt) if (1..=SALT_BYTES_MAX).contains(&salt.len()) => Ok(salt.as_bytes().to_vec()),
        Some(_) => {
            let what = format!("hash-salt: write what is put behind keys, at most {SALT_BYTES_MAX} bytes");
            Err(FileError::new(fields.place("hash-salt"), what))
        }
    }
}

/// When all pools are known: whether as many servers hold a key of this one as are to answer.
pub(super) fn check_answer(
    layout: &Layout,
    plan: &PoolPlan,
    fields: &Fields<'_, '_>,
) -> Result<(), FileError> {
    let below = match plan.source {
        Some(Source::Below(below)) => Some(&layout.pools[below]),
        _ => None,
    };
    let what = match plan.rules.answer {
        Answer::All => return Ok(()),
        _ if plan.rules.writes == Writes::Owner && below.is_none() => {
            "answer: with writes = \"owner\" one server has the key, and its answer is the answer".into()
        }
        Answer::Count(count) => match holders(plan, below) {
            Some(holders) if count > holders => format!("answer: {count} cannot answer where {holders} are"),
            _ => return Ok(()),
        },
        _ => return Ok(()),
    };
    Err(FileError::new(fields.place("answer"), what))
}

/// How many servers hold any key of a pool, with the one below it. A server of both counts once, also where it has only
/// some of the keys: there are some then that it has for both. None: nobody knows.
fn holders(own: &PoolPlan, below: Option<&PoolPlan>) -> Option<usize> {
    let Some(below) = below else { return copies(own) };
    let is_shared = |member: &&MemberPlan| below.members.iter().any(|other| other.address == member.address);
    let shared = own.members.iter().filter(is_shared).count();
    let are_all_replicas = own.rules.writes == Writes::All && below.rules.writes == Writes::All;
    let counted_twice = if are_all_replicas { shared } else { shared.min(1) };
    Some(copies(own)? + copies(below)? - counted_twice)
}

/// How many servers of a pool hold a key. None: of a group nobody knows how many servers it will have.
fn copies(plan: &PoolPlan) -> Option<usize> {
    match plan.rules.writes {
        Writes::Owner => Some(1),
        Writes::All if plan.members.iter().any(|member| Group::of(&member.address).is_some()) => None,
        Writes::All => Some(plan.members.len()),
    }
}

fn read_repair(fields: &Fields<'_, '_>, writes: Writes) -> Result<ReadRepair, FileError> {
    match fields.parsed("read-repair")? {
        Some(_) if writes == Writes::Owner => {
            let what = "read-repair: with writes = \"owner\" no other server of the pool has a key";
            Err(FileError::new(fields.place("read-repair"), what))
        }
        read_repair => Ok(read_repair.unwrap_or_default()),
    }
}
