//! The baseline: the bare server on rows of the same size, in a table with only a primary key.

use std::io::Write as _;

use redrive::postgres::{Client, NoTls, Statement};

use crate::{Bench, BenchPayload, Outcome, in_threads, rate};

/// The columns of the comparison with other queues.
const TABLE: &str = "DROP TABLE IF EXISTS baseline;
    CREATE TABLE baseline (id bigserial PRIMARY KEY, queue text NOT NULL, payload json NOT NULL,
        run_at timestamptz, locked_at timestamptz, attempts integer)";
const COPY: &str = "COPY baseline (queue, payload) FROM STDIN";
/// By `ctid`, in the order of the key; skips locked rows.
const DELETE: &str = "DELETE FROM baseline WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM baseline ORDER BY id LIMIT 500 FOR UPDATE SKIP LOCKED)) RETURNING id, payload";

/// The baseline table.
#[derive(Clone, Debug)]
pub struct Baseline {
    url: String,
}

impl Baseline {
    /// Creates the table.
    pub fn new(bench: &Bench) -> Outcome<Baseline> {
        bench.execute(TABLE)?;
        Ok(Baseline {
            url: bench.url().to_owned(),
        })
    }

    fn client(&self) -> Outcome<Client> {
        Ok(Client::connect(&self.url, NoTls)?)
    }

    /// Opens connections, and prepares a statement on each.
    fn prepared(&self, statement: &str, connections: usize) -> Outcome<Vec<(Client, Statement)>> {
        let prepared = |_| {
            let mut client = self.client()?;
            let statement = client.prepare(statement)?;
            Ok((client, statement))
        };
        (0..connections).map(prepared).collect()
    }

    /// Copies rows as text in one transaction into the empty table, and returns the rows a second.
    pub fn copy(&self, rows: usize) -> Outcome<f64> {
        let mut client = self.client()?;
        client.batch_execute("TRUNCATE baseline; CHECKPOINT")?;
        let text: Vec<String> = BenchPayload::many(rows)
            .iter()
            .map(|payload| format!("q\t{}\n", payload.json()))
            .collect();
        let chunks: Vec<String> = text.chunks(500).map(<[String]>::concat).collect();
        rate(rows, || {
            let mut writer = client.copy_in(COPY)?;
            for chunk in &chunks {
                writer.write_all(chunk.as_bytes())?;
            }
            let written = writer.finish()?;
            match written == rows as u64 {
                true => Ok(()),
                false => Err(format!("COPY wrote {written} rows of {rows}").into()),
            }
        })
    }

    /// Deletes and returns rows, 500 a statement, on several connections, and returns the rows a
    /// second. Writing the rows first is not timed.
    pub fn delete(&self, rows: usize, connections: usize) -> Outcome<f64> {
        self.copy(rows)?;
        let mut client = self.client()?;
        client.batch_execute("ANALYZE baseline; CHECKPOINT")?;
        let mut clients = self.prepared(DELETE, connections)?;
        let rate = rate(rows, || {
            in_threads(&mut clients, |(client, delete)| {
                while !client.query(&*delete, &[])?.is_empty() {}
                Ok(())
            })
        })?;
        let left: i64 = client
            .query_one("SELECT count(*) FROM baseline", &[])?
            .get(0);
        match left {
            0 => Ok(rate),
            left => Err(format!("the baseline left {left} rows").into()),
        }
    }

    /// Inserts single rows on several connections, and returns the rows a second. As an enqueue
    /// must, each is a prepared statement with its own commit that returns the new id.
    pub fn insert(&self, rows: usize, connections: usize) -> Outcome<f64> {
        const INSERT: &str =
            "INSERT INTO baseline (queue, payload) VALUES ($1, $2::text::json) RETURNING id";
        let mut clients = self.prepared(INSERT, connections)?;
        let each = rows / connections;
        rate(each * connections, || {
            in_threads(&mut clients, |(client, insert)| {
                for _ in 0..each {
                    let payload = BenchPayload::new(1).json();
                    client.query_one(&*insert, &[&"q", &payload])?;
                }
                Ok(())
            })
        })
    }
}
