//! Fills a server before the run: every key once, so that a get misses only what the server has forgotten.

use std::io::{self, ErrorKind, Write};

use posthaste_wire::memcached::answer::{Answer, answer};

use crate::address::{Address, BlockingStream};
use crate::cache::dialogue::Recipe;
use crate::error::LoadError;
use crate::halt::unless_interrupted;
use crate::seeds::{self, Purpose};

/// Size at which a batch is sent, in bytes or in sets: there must be room for its answers while it is written.
const BATCH_BYTES: usize = 256 * 1024;
const BATCH_SETS: usize = 1024;

/// Sets every key of the recipe at a server.
///
/// # Errors
/// The server cannot be reached, or refuses a set.
pub(crate) fn preload(address: &Address, recipe: &Recipe, seed: u64) -> Result<(), LoadError> {
    let failed = |source| LoadError::Connect { address: address.to_string(), source };
    let mut stream = address.connect().map_err(failed)?.cut_for_memcached();
    let mut rng = seeds::stream(seed, Purpose::Preload, 0);
    let (mut out, mut input) = (Vec::with_capacity(2 * BATCH_BYTES), Vec::new());
    let mut numbers = (0..recipe.space.count).peekable();
    while numbers.peek().is_some() {
        unless_interrupted()?;
        let mut sets = 0;
        while sets < BATCH_SETS
            && out.len() < BATCH_BYTES
            && let Some(number) = numbers.next()
        {
            recipe.set(recipe.space.first + number, number, &mut rng, &mut out);
            sets += 1;
        }
        stream.write_all(&out).map_err(failed)?;
        out.clear();
        for _ in 0..sets {
            if let Some(answer) = refusal(&mut stream, &mut input).map_err(failed)? {
                let (address, request) = (address.to_string(), "set, to preload a key,".to_owned());
                return Err(LoadError::SetUp { address, request, answer });
            }
        }
    }
    Ok(())
}

/// Waits for the answer to a set; returns None if the value was stored.
fn refusal(stream: &mut BlockingStream, input: &mut Vec<u8>) -> io::Result<Option<String>> {
    loop {
        match answer(input) {
            Answer::Line { line, len } => {
                let refusal = (line != b"STORED").then(|| String::from_utf8_lossy(line).into_owned());
                input.drain(..len);
                return Ok(refusal);
            }
            Answer::NeedBytes(_) => {}
            Answer::Values { .. } | Answer::Malformed => {
                return Err(io::Error::new(
                    ErrorKind::InvalidData,
                    "its answer to a set is not the memcached text protocol",
                ));
            }
        }
        stream.read_more(input)?;
    }
}
