//! Bulk enqueue with COPY in binary format.
//!
//! The driver's binary writer costs four times the CPU of this encoder and cannot write a payload
//! that is already JSON text. The format:
//! <https://www.postgresql.org/docs/current/sql-copy.html#id-1.9.3.55.9.4>

use std::io::Write as _;
use std::time::SystemTime;

use postgres::GenericClient;
use postgres::types::{ToSql as _, Type};

use crate::db::sql;
use crate::job::job::JobId;
use crate::job::new_job::{DEFAULT_ATTEMPTS, NewJob};

/// How many bytes are encoded before they are sent.
const CHUNK_BYTES: usize = 64 * 1024;
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
/// A row of -1 columns ends the copy.
const END: [u8; 2] = (-1_i16).to_be_bytes();
/// The places of the attributes of `redrive.job_meta` that a new job may have here.
const MAX_ATTEMPTS_PLACE: usize = 2;
const PRIORITY_PLACE: usize = 4;

/// Stores jobs with COPY; the caller must be in a transaction. Returns the ids in the order of the
/// jobs.
pub(crate) fn enqueue(
    client: &mut impl GenericClient,
    queue: &str,
    jobs: &[NewJob],
) -> Result<Vec<JobId>, postgres::Error> {
    let count = i64::try_from(jobs.len()).unwrap_or(i64::MAX);
    let reserved = client.query_typed_one(
        sql::RESERVE_IDS.text,
        &sql::RESERVE_IDS.typed(&[&count, &queue]),
    )?;
    let ids: Vec<i64> = reserved.get("ids");
    // NULL if the ring has lost its row.
    let segment: i16 = reserved.try_get("segment")?;
    // All delays count from one reading of the database's clock.
    let now: SystemTime = reserved.get("now");
    let meta_types: Vec<u32> = reserved.get("meta_types");

    let numbered = || ids.iter().copied().zip(jobs);
    let ready = numbered().filter(|(_, job)| job.delay.is_zero());
    copy(
        client,
        &sql::COPY_JOBS,
        ready,
        queue,
        &meta_types,
        7,
        |row, job| {
            row.int2(segment);
            row.int2(-2 * job.priority);
        },
    )?;
    if jobs.iter().any(|job| !job.delay.is_zero()) {
        let delayed = numbered().filter(|(_, job)| !job.delay.is_zero());
        copy(
            client,
            &sql::COPY_JOBS_DELAYED,
            delayed,
            queue,
            &meta_types,
            6,
            |row, job| row.timestamp(now + job.delay),
        )?;
    }
    client.query_typed(sql::WAKE.text, &sql::WAKE.typed(&[&queue]))?;
    Ok(ids.into_iter().map(JobId::new).collect())
}

fn copy<'a>(
    client: &mut impl GenericClient,
    statement: &sql::Sql,
    jobs: impl Iterator<Item = (i64, &'a NewJob)>,
    queue: &str,
    meta_types: &[u32],
    columns: i16,
    after_id: impl Fn(&mut Encoder, &NewJob),
) -> Result<(), postgres::Error> {
    // COPY is the one statement that the driver must prepare by name. It closes the name in the
    // same transaction, so a pooler never sees it.
    let mut writer = client.copy_in(statement.text)?;
    let mut rows = Encoder(Vec::with_capacity(CHUNK_BYTES * 2));
    rows.0.extend_from_slice(SIGNATURE);
    // Flags, and no header extension.
    rows.0.extend_from_slice(&[0; 8]);
    for (id, job) in jobs {
        rows.0.extend_from_slice(&columns.to_be_bytes());
        rows.int8(id);
        after_id(&mut rows, job);
        rows.text(queue);
        rows.text(&job.kind);
        rows.text(job.payload.as_str());
        rows.meta(job, meta_types);
        if rows.0.len() >= CHUNK_BYTES {
            // `finish` returns the server's error.
            if writer.write_all(&rows.0).is_err() {
                break;
            }
            rows.0.clear();
        }
    }
    rows.0.extend_from_slice(&END);
    _ = writer.write_all(&rows.0);
    writer.finish()?;
    Ok(())
}

/// Fields in PostgreSQL's binary format: a length, then the bytes, big-endian.
struct Encoder(Vec<u8>);

impl Encoder {
    fn field(&mut self, bytes: &[u8]) {
        // Names have at most 400 bytes, payloads at most 1 MiB.
        let length = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
        self.0.extend_from_slice(&length.to_be_bytes());
        self.0.extend_from_slice(bytes);
    }

    fn null(&mut self) {
        self.0.extend_from_slice(&(-1_i32).to_be_bytes());
    }

    /// A `redrive.job_meta`: the number of its attributes, then each with the oid of its type; NULL for a plain job.
    fn meta(&mut self, job: &NewJob, types: &[u32]) {
        let attempts = job.max_attempts.cast_signed();
        if job.priority == 0 && attempts == DEFAULT_ATTEMPTS.cast_signed() {
            return self.null();
        }
        let mut meta = Encoder(Vec::with_capacity(types.len() * 12));
        let count = i32::try_from(types.len()).unwrap_or(i32::MAX);
        meta.0.extend_from_slice(&count.to_be_bytes());
        for (place, oid) in types.iter().enumerate() {
            meta.0.extend_from_slice(&oid.to_be_bytes());
            match place {
                MAX_ATTEMPTS_PLACE => meta.field(&attempts.to_be_bytes()),
                PRIORITY_PLACE => meta.int2(job.priority),
                _ => meta.null(),
            }
        }
        self.field(&meta.0);
    }

    fn int2(&mut self, value: i16) {
        self.field(&value.to_be_bytes());
    }

    fn int8(&mut self, value: i64) {
        self.field(&value.to_be_bytes());
    }

    fn text(&mut self, value: &str) {
        self.field(value.as_bytes());
    }

    fn timestamp(&mut self, value: SystemTime) {
        let mut encoded = bytes::BytesMut::new();
        // It only writes to memory.
        _ = value.to_sql(&Type::TIMESTAMPTZ, &mut encoded);
        self.field(&encoded);
    }
}
