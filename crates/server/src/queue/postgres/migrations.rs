//! The schema: numbered files of SQL, each applied once, in order, in a transaction of its own.
//!
//! What has been applied is listed in `posthaste.migration`, visible to the schema's owner, with the SHA-1 of each file: a
//! schema made of other files than ours, by a version between two releases, is refused by name. Two programs that
//! migrate at once take turns by an advisory lock. That lock belongs to the session, so the connection must be a direct
//! one: a pooler lends the session, and the lock with it, to others. It is recognized and refused.

use std::fmt::{self, Write as _};
use std::io;

use sha1::{Digest as _, Sha1};
use tokio_postgres::Client;
use tokio_postgres::error::{ErrorPosition, SqlState};

use super::address::PostgresAddress;
use super::connect::{ConnectError, with_connection};
use super::link::{NO_TIMEOUT, OWN_SESSION};
use super::refusal::chain;

/// One file of `sql/`.
struct Migration {
    number: u32,
    name: &'static str,
    text: &'static str,
}

/// All files, in order. A file that has been released never changes again; a change is a further file.
const MIGRATIONS: &[Migration] = &[
    migration(1, "tables", include_str!("../../../../../sql/0001_tables.sql")),
    migration(2, "lanes", include_str!("../../../../../sql/0002_lanes.sql")),
    migration(3, "rules", include_str!("../../../../../sql/0003_rules.sql")),
    migration(4, "room", include_str!("../../../../../sql/0004_room.sql")),
    migration(5, "changes", include_str!("../../../../../sql/0005_changes.sql")),
    migration(6, "steps", include_str!("../../../../../sql/0006_steps.sql")),
    migration(7, "batch", include_str!("../../../../../sql/0007_batch.sql")),
    migration(8, "upkeep", include_str!("../../../../../sql/0008_upkeep.sql")),
    migration(9, "unbatched", include_str!("../../../../../sql/0009_unbatched.sql")),
    migration(10, "pop_delete_retry", include_str!("../../../../../sql/0010_pop_delete_retry.sql")),
    migration(11, "pop_for_update", include_str!("../../../../../sql/0011_pop_for_update.sql")),
    migration(12, "pop_repeatable_read", include_str!("../../../../../sql/0012_pop_repeatable_read.sql")),
    migration(13, "pop_mark_update", include_str!("../../../../../sql/0013_pop_mark_update.sql")),
    migration(14, "pop_skip_locked", include_str!("../../../../../sql/0014_pop_skip_locked.sql")),
    migration(15, "alone", include_str!("../../../../../sql/0015_alone.sql")),
    migration(16, "large_queues", include_str!("../../../../../sql/0016_large_queues.sql")),
    migration(17, "sql_clients", include_str!("../../../../../sql/0017_sql_clients.sql")),
];

const fn migration(number: u32, name: &'static str, text: &'static str) -> Migration {
    Migration { number, name, text }
}

/// Key of the advisory lock, the same in every release: `posthast` in ASCII.
const LOCK: i64 = 0x706f_7374_6861_7374;

/// Oldest supported server, as in `server_version_num`.
const OLDEST: i32 = 130_000;

/// The beginning of the script: what psql is told, and a check of what else only this program would check.
const PREAMBLE: &str = "-- The schema of posthaste, for an empty database: psql --file=FILE DATABASE
\\set ON_ERROR_STOP on

DO $$
BEGIN
    IF current_setting('server_version_num')::int < {OLDEST} THEN
        RAISE 'PostgreSQL % is too old: 13 or newer is needed', current_setting('server_version');
    ELSIF current_setting('server_encoding') <> 'UTF8' THEN
        RAISE 'the encoding of this database is %: create one with ENCODING ''UTF8'' TEMPLATE template0',
            current_setting('server_encoding');
    END IF;
END $$;
";

/// Why a schema is not as this program needs it.
#[derive(Debug)]
pub enum MigrateError {
    /// The database was not reached.
    Connect(ConnectError),
    /// There is no schema, or an older one than this.
    Behind {
        /// The newest migration it has; 0: none.
        found: u32,
        /// The newest this program has.
        wanted: u32,
    },
    /// The schema is newer than this program.
    Ahead {
        /// The newest migration it has.
        found: u32,
        /// The newest this program knows.
        known: u32,
    },
    /// Name of a file that was a different one when it was applied.
    Other(String),
    /// Name of a file that is noted as missing, though later ones were applied.
    Hole(String),
    /// Version of a server that is too old.
    Old(String),
    /// The database's encoding, which is not UTF8.
    Encoding(String),
    /// The connection is a pooler's, whose sessions are lent to others next.
    Pooled,
    /// A file could not be applied.
    File {
        /// Its name.
        file: String,
        /// Where and why.
        why: String,
    },
    /// The database failed at something else, in its words.
    Failed(String),
    /// The machine gave no event loop.
    Runtime(io::Error),
}

impl std::error::Error for MigrateError {}

impl fmt::Display for MigrateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => error.fmt(f),
            Self::Behind { found: 0, .. } => {
                f.write_str("the database has no posthaste schema: run posthaste migrate --store URL")
            }
            Self::Behind { found, wanted } => write!(
                f,
                "the database's schema is at {found}, this program needs {wanted}: run posthaste migrate --store URL"
            ),
            Self::Ahead { found, known } => write!(
                f,
                "this program is older than the schema (it knows {known}, the database has {found}): upgrade posthaste"
            ),
            Self::Other(file) => write!(
                f,
                "the database's schema was made by a version between two releases, whose {file} is not this program's: use \
                 that version, or migrate an empty database"
            ),
            Self::Hole(file) => write!(
                f,
                "the database's schema is damaged: {file} is not noted in posthaste.migration, but later files are; restore a \
                 backup, or migrate an empty database"
            ),
            Self::Old(version) => write!(f, "PostgreSQL {version} is too old: 13 or newer is needed"),
            Self::Encoding(encoding) => write!(
                f,
                "the database's encoding is {encoding}: create one with ENCODING 'UTF8' TEMPLATE template0"
            ),
            Self::Pooled => f.write_str(
                "a pooler answers at this address, and migrate holds a lock in a session of its own: name the database server \
                 itself in --store",
            ),
            Self::File { file, why } => {
                write!(f, "{file} could not be applied, nothing of it remains: {why}")
            }
            Self::Failed(why) => write!(f, "the database failed: {why}"),
            Self::Runtime(error) => write!(f, "cannot start an event loop: {error}"),
        }
    }
}

impl From<tokio_postgres::Error> for MigrateError {
    fn from(error: tokio_postgres::Error) -> Self {
        let mut why = chain(&error);
        if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
            why += "; the schema is for the role that migrated it: use that one";
        }
        Self::Failed(why)
    }
}

impl From<ConnectError> for MigrateError {
    fn from(error: ConnectError) -> Self {
        Self::Connect(error)
    }
}

/// The only thing asked of the system is an event loop.
impl From<io::Error> for MigrateError {
    fn from(error: io::Error) -> Self {
        Self::Runtime(error)
    }
}

impl Migration {
    fn file(&self) -> String {
        format!("{:04}_{}.sql", self.number, self.name)
    }

    /// Returns the file's SHA-1 as `sha1sum` shows it.
    fn digest(&self) -> String {
        let digest = Sha1::digest(self.text);
        digest.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    }

    /// Returns the statement that records that the file has been applied.
    fn note(&self) -> String {
        let Self { number, name, .. } = self;
        let digest = self.digest();
        format!(
            "INSERT INTO posthaste.migration (number, name, sha1) VALUES ({number}, '{name}', '{digest}')"
        )
    }
}

/// A file that a database says was applied.
struct Applied {
    number: u32,
    /// None: it was recorded before digests were.
    digest: Option<String>,
}

/// Connects, brings the schema up to date and returns the numbers of the migrations that took.
///
/// # Errors
/// What stands in the way and what to do.
pub fn migrate_at(address: &PostgresAddress) -> Result<Vec<u32>, MigrateError> {
    with_connection(address, migrate)
}

/// Brings the schema up to date; returns the numbers of the migrations that were applied.
///
/// # Errors
/// What stands in the way and what to do. What was applied before stays.
pub async fn migrate(client: &mut Client) -> Result<Vec<u32>, MigrateError> {
    suits(client).await?;
    // The lock would stay with a session of the pooler's, and whoever migrates next would wait for it for ever.
    if !is_own_session(client).await? {
        return Err(MigrateError::Pooled);
    }
    // Several may migrate at once, and all but one wait.
    client.execute(NO_TIMEOUT, &[]).await?;
    client.execute("SELECT pg_advisory_lock($1)", &[&LOCK]).await?;
    let applied = migrate_alone(client).await;
    // If this fails the connection is broken, and the lock gone with it.
    let _ = client.execute("SELECT pg_advisory_unlock($1)", &[&LOCK]).await;
    applied
}

/// Checks that the schema is exactly what this program needs, in a database that suits it: whoever applied the script may
/// have passed over its errors.
///
/// # Errors
/// What to do if it is not.
pub async fn check(client: &Client) -> Result<(), MigrateError> {
    suits(client).await?;
    let applied = applied(client).await?;
    is_ours(&applied)?;
    let (found, wanted) = (newest(&applied), newest_known());
    if found < wanted { Err(MigrateError::Behind { found, wanted }) } else { Ok(()) }
}

/// Checks that no file is missing before one that was applied.
fn is_whole(applied: &[Applied]) -> Result<(), MigrateError> {
    let newest = newest(applied);
    let is_missing =
        |migration: &&Migration| applied.iter().all(|applied| applied.number != migration.number);
    let missing = MIGRATIONS.iter().filter(|migration| migration.number < newest).find(is_missing);
    missing.map_or(Ok(()), |migration| Err(MigrateError::Hole(migration.file())))
}

/// Returns all migrations as one script for psql.
#[must_use]
pub fn script() -> String {
    let mut script = PREAMBLE.replace("{OLDEST}", &OLDEST.to_string());
    for migration in MIGRATIONS {
        let (file, text, note) = (migration.file(), migration.text, migration.note());
        let _ = write!(script, "\n-- {file}\nBEGIN;\n{text}\n{note};\nCOMMIT;\n");
    }
    script
}

fn newest_known() -> u32 {
    MIGRATIONS.iter().map(|migration| migration.number).max().unwrap_or_default()
}

fn newest(applied: &[Applied]) -> u32 {
    applied.iter().map(|applied| applied.number).max().unwrap_or_default()
}

/// Checks that all files that were applied are this program's.
fn is_ours(applied: &[Applied]) -> Result<(), MigrateError> {
    let (found, known) = (newest(applied), newest_known());
    if found > known {
        return Err(MigrateError::Ahead { found, known });
    }
    for Applied { number, digest } in applied {
        let file = MIGRATIONS.iter().find(|migration| migration.number == *number);
        if let Some(file) = file.filter(|file| digest.as_ref() != Some(&file.digest())) {
            return Err(MigrateError::Other(file.file()));
        }
    }
    is_whole(applied)
}

/// Checks that this server and this database can hold the schema at all.
async fn suits(client: &Client) -> Result<(), MigrateError> {
    const ASKED: &str = "SELECT current_setting('server_version_num')::int, current_setting('server_version'), \
                         current_setting('server_encoding')";
    // Without a name, as behind a pooler.
    let rows = client.query_typed(ASKED, &[]).await?;
    let Some(row) = rows.first() else { return Ok(()) };
    let (number, version, encoding): (i32, String, String) = (row.get(0), row.get(1), row.get(2));
    if number < OLDEST {
        return Err(MigrateError::Old(version));
    }
    if encoding != "UTF8" {
        return Err(MigrateError::Encoding(encoding));
    }
    Ok(())
}

/// Returns whether the session is this connection's alone.
async fn is_own_session(client: &Client) -> Result<bool, MigrateError> {
    let rows = client.query_typed(OWN_SESSION, &[]).await?;
    Ok(rows.first().is_some_and(|row| row.get(0)))
}

/// Returns the files that were applied, in order.
async fn applied(client: &Client) -> Result<Vec<Applied>, MigrateError> {
    // Without a name: behind a pooler the session may hold another client's statement of that name.
    let there = client.query_typed("SELECT to_regclass('posthaste.migration') IS NOT NULL", &[]).await?;
    if !there.first().is_some_and(|row| row.get(0)) {
        return Ok(Vec::new());
    }
    // By way of JSON, so that a table without digests is read as well.
    const ASKED: &str =
        "SELECT number, to_jsonb(migration) ->> 'sha1' FROM posthaste.migration ORDER BY number";
    let rows = client.query_typed(ASKED, &[]).await?;
    let applied = rows.iter().filter_map(|row| {
        Some(Applied { number: u32::try_from(row.get::<_, i32>(0)).ok()?, digest: row.get(1) })
    });
    Ok(applied.collect())
}

async fn migrate_alone(client: &mut Client) -> Result<Vec<u32>, MigrateError> {
    let applied = applied(client).await?;
    is_ours(&applied)?;
    let is_missing =
        |migration: &&Migration| applied.iter().all(|applied| applied.number != migration.number);
    let mut done = Vec::new();
    for migration in MIGRATIONS.iter().filter(is_missing) {
        apply(client, migration).await.map_err(|error| MigrateError::File {
            file: migration.file(),
            why: place(&error, migration.text),
        })?;
        done.push(migration.number);
    }
    Ok(done)
}

async fn apply(client: &mut Client, migration: &Migration) -> Result<(), tokio_postgres::Error> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(migration.text).await?;
    transaction.batch_execute(&migration.note()).await?;
    transaction.commit().await
}

/// Returns an error's text with the line of the file that it is about.
fn place(error: &tokio_postgres::Error, text: &str) -> String {
    let Some(db) = error.as_db_error() else { return chain(error) };
    let mut said = db.message().replace('\n', " ");
    // The file that creates the schema needs a privilege in the database; the others act in the schema, which is ours.
    if *db.code() == SqlState::INSUFFICIENT_PRIVILEGE && text.contains("CREATE SCHEMA posthaste;") {
        said += "; its owner can allow it: GRANT CREATE ON DATABASE … TO the URL's user";
    }
    if *db.code() == SqlState::DUPLICATE_SCHEMA {
        said += "; migrate makes it, and somebody else made this one: if nothing in it is needed, DROP SCHEMA posthaste";
    }
    match db.position() {
        Some(ErrorPosition::Original(position)) => {
            let before = text.chars().take((*position as usize).saturating_sub(1));
            format!("line {}: {said}", before.filter(|letter| *letter == '\n').count() + 1)
        }
        _ => said,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{MIGRATIONS, MigrateError, script};

    #[test]
    fn every_file_of_the_directory_is_in_the_table_in_order() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sql");
        let entries = fs::read_dir(&dir).expect("the directory sql");
        let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
        let numbered =
            |name: &String| name.ends_with(".sql") && name.starts_with(|c: char| c.is_ascii_digit());
        let mut names: Vec<String> = names.filter(numbered).collect();
        names.sort();
        let listed: Vec<String> = MIGRATIONS.iter().map(super::Migration::file).collect();
        assert_eq!(listed, names);
        for (index, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(migration.number as usize, index + 1, "no gaps");
            let text = fs::read_to_string(dir.join(migration.file())).expect("the file");
            assert_eq!(migration.text, text, "{}", migration.file());
        }
    }

    #[test]
    fn the_script_notes_every_file_in_its_transaction() {
        let script = script();
        assert_eq!(script.matches("\nBEGIN;\n").count(), MIGRATIONS.len());
        assert_eq!(script.matches("\nCOMMIT;\n").count(), MIGRATIONS.len());
        assert_eq!(script.matches("INSERT INTO posthaste.migration (number").count(), MIGRATIONS.len());
    }

    #[test]
    fn errors_say_what_to_do() {
        for (error, words) in [
            (MigrateError::Behind { found: 0, wanted: 3 }, "run posthaste migrate"),
            (MigrateError::Behind { found: 2, wanted: 3 }, "at 2"),
            (MigrateError::Ahead { found: 4, known: 3 }, "upgrade posthaste"),
            (MigrateError::Other("0007_batch.sql".into()), "migrate an empty database"),
            (MigrateError::Hole("0003_rules.sql".into()), "restore a backup"),
        ] {
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
