//! The servers of a pool in a file: each of them once, and each with keys of its own.

use posthaste_server::cache::backend::Backend;
use posthaste_server::cache::groups::Group;
use posthaste_server::cache::layout::MemberPlan;
use posthaste_server::cache::placement::Hash;
use posthaste_server::cache::resolver::Resolver;
use posthaste_server::cache::rules::Rules;

use super::between;
use crate::placed::{Fields, FileError, Placed};

const SERVER_FIELDS: [&str; 4] = ["address", "name", "weight", "zone"];

/// Heaviest server.
const WEIGHT_MAX: u32 = 1000;

/// The servers that a pool's field names.
pub(super) fn members(
    fields: &Fields<'_, '_>,
    rules: &Rules,
    resolver: Option<&Resolver>,
) -> Result<Vec<MemberPlan>, FileError> {
    let mut members: Vec<MemberPlan> = Vec::new();
    let mut taken: Vec<(String, Vec<String>)> = Vec::new();
    let mut marks: Vec<String> = Vec::new();
    for value in fields.list("servers") {
        let at = value.span().start;
        let member = member(value, rules.hash)?;
        check_group(&member).map_err(|error| FileError::new(at, error))?;
        let (name, places) = name_and_places(&member, resolver).map_err(|error| FileError::new(at, error))?;
        let is_it = |taken: &&(String, Vec<String>)| {
            taken.0 == name || taken.1.iter().any(|place| places.contains(place))
        };
        if let Some((other, _)) = taken.iter().find(is_it) {
            let alias = if *other == name { String::new() } else { format!(", as {other}") };
            return Err(FileError::new(
                at,
                format!("server {} is in this pool already{alias}", member.address),
            ));
        }
        if member.name.is_some() && members.iter().any(|other| other.name == member.name) {
            return Err(FileError::new(at, "two servers of a pool cannot have one name"));
        }
        if let Some(mark) = rules.hash.mark(member.name.as_deref(), &name) {
            if marks.iter().any(|other| other == mark) {
                let what = format!(
                    "server {}: keys are placed by {mark}, and so are another server's: give one another name",
                    member.address
                );
                return Err(FileError::new(at, what));
            }
            marks.push(mark.to_owned());
        }
        taken.push((name, places));
        if member.weight.is_some_and(|weight| weight != 1) && !rules.hash.takes_weights() {
            return Err(FileError::new(at, format!("hash = \"{}\" knows no weights", rules.hash)));
        }
        members.push(member);
    }
    if members.is_empty() {
        return Err(FileError::new(fields.place("servers"), "a pool needs servers = [\"HOST:PORT\", …]"));
    }
    Ok(members)
}

/// What a server is called, and if somebody is to know it, where it may be. Of a group the servers are no names of one
/// server.
fn name_and_places(
    member: &MemberPlan,
    resolver: Option<&Resolver>,
) -> Result<(String, Vec<String>), String> {
    let name = Backend::named(&member.address)?;
    let Some(resolver) = resolver else { return Ok((name, Vec::new())) };
    if let Some(group) = Group::of(&member.address) {
        group?.resolve(resolver)?;
        return Ok((name, Vec::new()));
    }
    let backend = Backend::parse_by(&member.address, resolver)?;
    backend.address()?;
    let places = backend.places().to_vec();
    Ok((backend.name, places))
}

/// A group has as many names as servers, and one of services has weights.
fn check_group(member: &MemberPlan) -> Result<(), String> {
    let Some(group) = Group::of(&member.address) else { return Ok(()) };
    let group = group?;
    if member.name.is_some() {
        return Err(format!("{} stands for several servers: leave its name out", group.name));
    }
    if member.weight.is_some() && group.has_weights() {
        return Err(format!("{}: its records say the weights; leave weight out", group.name));
    }
    Ok(())
}

fn member(value: &Placed<'_>, hash: Hash) -> Result<MemberPlan, FileError> {
    if let Some(address) = value.get_ref().as_str() {
        return Ok(MemberPlan::of(address));
    }
    let fields = Fields::of(value, &SERVER_FIELDS)?;
    let address = fields.text("address")?;
    let address =
        address.ok_or_else(|| FileError::new(fields.at, "a server needs address = \"HOST:PORT\""))?;
    // mcrouter has servers that take no keys.
    let least = u32::from(!hash.has_full_weight());
    let weight = fields.read("weight", |text| between(least, text, WEIGHT_MAX))?;
    Ok(MemberPlan {
        address: address.to_owned(),
        name: fields.text("name")?.map(str::to_owned),
        weight,
        zone: fields.text("zone")?.map(str::to_owned),
        group: None,
    })
}
