//! Bulk enqueue with COPY in binary format.
//!
//! The driver's binary writer costs four times the CPU of this encoder and cannot write a payload
//! that is already JSON text. The format:
//! <https://www.postgresql.org/docs/current/sql-copy.html#id-1.9.3.55.9.4>

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use postgres::GenericClient;

use crate::db::sql;
use crate::job::job::JobId;
use crate::job::new_job::NewJob;

/// How many bytes are encoded before they are sent.
const CHUNK_BYTES: usize = 64 * 1024;
/// The signature, no flags and no header extension.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// A row of -1 columns ends the copy.
const END: [u8; 2] = (-1_i16).to_be_bytes();

/// Stores jobs with COPY; the caller must be in a transaction. Returns the ids in the order of the
/// jobs.
pub(crate) fn enqueue(
    client: &mut impl GenericClient,
    queue: &str,
    jobs: &[NewJob],
) -> Result<Vec<JobId>, postgres::Error> {
    let count = i64::try_from(jobs.len()).unwrap_or(i64::MAX);
    let options = |job: &NewJob| (job.priority, job.max_attempts.cast_signed());
    let all_options: BTreeSet<(i16, i32)> = jobs.iter().map(options).collect();
    let (priorities, attempts): (Vec<i16>, Vec<i32>) = all_options.iter().copied().unzip();
    let reserved = client.query_typed_one(
        sql::RESERVE_IDS.text,
        &sql::RESERVE_IDS.typed(&[&count, &queue, &priorities, &attempts]),
    )?;
    let ids: Vec<i64> = reserved.get("ids");
    // NULL if the ring has lost its row.
    let segment: i16 = reserved.try_get("segment")?;
    // All delays count from one reading of the database's clock.
    let now_micros: i64 = reserved.get("now_micros");
    let metas: Vec<Option<&[u8]>> = reserved.get("metas");
    let metas: BTreeMap<(i16, i32), Option<&[u8]>> = all_options.into_iter().zip(metas).collect();

    for (statement, columns, is_delayed) in [
        (&sql::COPY_JOBS, 7_i16, false),
        (&sql::COPY_JOBS_DELAYED, 6, true),
    ] {
        let of_table = |(_, job): &(&i64, &NewJob)| job.delay.is_zero() != is_delayed;
        let mut its = ids.iter().zip(jobs).filter(of_table).peekable();
        if its.peek().is_none() {
            continue;
        }
        // COPY is the one statement that the driver must prepare by name. It closes the name in the
        // same transaction, so a pooler never sees it.
        let mut writer = client.copy_in(statement.text)?;
        let mut rows = Vec::with_capacity(CHUNK_BYTES * 2);
        rows.extend_from_slice(HEADER);
        for (id, job) in its {
            rows.extend_from_slice(&columns.to_be_bytes());
            add(&mut rows, Some(&id.to_be_bytes()));
            if is_delayed {
                let run_at = now_micros + job.delay_ms() * 1000;
                add(&mut rows, Some(&run_at.to_be_bytes()));
            } else {
                add(&mut rows, Some(&segment.to_be_bytes()));
                add(&mut rows, Some(&(-2 * job.priority).to_be_bytes()));
            }
            add(&mut rows, Some(queue.as_bytes()));
            add(&mut rows, Some(job.kind.as_bytes()));
            add(&mut rows, Some(job.payload.as_str().as_bytes()));
            add(&mut rows, metas.get(&options(job)).copied().flatten());
            if rows.len() >= CHUNK_BYTES {
                // `finish` returns the server's error.
                if writer.write_all(&rows).is_err() {
                    break;
                }
                rows.clear();
            }
        }
        rows.extend_from_slice(&END);
        _ = writer.write_all(&rows);
        writer.finish()?;
    }
    client.query_typed(sql::WAKE.text, &sql::WAKE.typed(&[&queue]))?;
    Ok(ids.into_iter().map(JobId::new).collect())
}

/// Adds a field: its length, then its bytes; `None`: NULL.
fn add(rows: &mut Vec<u8>, field: Option<&[u8]>) {
    // Names have at most 400 bytes, payloads at most 1 MiB.
    let length = field.map_or(-1, |bytes| i32::try_from(bytes.len()).unwrap_or(i32::MAX));
    rows.extend_from_slice(&length.to_be_bytes());
    rows.extend_from_slice(field.unwrap_or_default());
}
