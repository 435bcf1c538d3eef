//! The floor: what the bare server does with rows as large, in a table with a primary key and
//! nothing else.

use std::io::Write as _;

use redrive::postgres::{Client, NoTls};

use crate::{Bench, Outcome, Parcel, rate};

/// As `pgbench` had it in the comparison with other queues.
const TABLE: &str = "DROP TABLE IF EXISTS floor;
    CREATE TABLE floor (id bigserial, queue text NOT NULL, payload jsonb NOT NULL,
        run_at timestamptz, locked_at timestamptz, attempts integer)";
const KEY: &str = "ALTER TABLE floor ADD PRIMARY KEY (id)";
const COPY: &str = "COPY floor (queue, payload) FROM STDIN";
/// By `ctid`, in the order of the key, past what others hold.
const DELETE: &str = "DELETE FROM floor WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM floor ORDER BY id LIMIT 500 FOR UPDATE SKIP LOCKED)) RETURNING id, payload";

/// Whether the floor's table has its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloorKeys {
    /// A primary key.
    Primary,
    /// None.
    Without,
}

/// The floor's table.
#[derive(Clone, Debug)]
pub struct Floor {
    url: String,
}

impl Floor {
    /// Makes the table.
    ///
    /// # Errors
    /// The driver's.
    pub fn new(bench: &Bench, keys: FloorKeys) -> Outcome<Floor> {
        let mut client = bench.client()?;
        client.batch_execute(TABLE)?;
        if keys == FloorKeys::Primary {
            client.batch_execute(KEY)?;
        }
        Ok(Floor {
            url: bench.url().to_owned(),
        })
    }

    fn client(&self) -> Outcome<Client> {
        Ok(Client::connect(&self.url, NoTls)?)
    }

    /// Rows a second that COPY writes, as text, in one transaction; the table is empty before.
    ///
    /// # Errors
    /// The driver's.
    pub fn copy(&self, rows: usize) -> Outcome<f64> {
        let mut client = self.client()?;
        client.batch_execute("TRUNCATE floor; CHECKPOINT")?;
        let text: Vec<String> = Parcel::many(rows)
            .iter()
            .map(|parcel| format!("q\t{}\n", parcel.json()))
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

    /// Rows a second that are deleted and returned, 500 a statement, by so many connections at
    /// once. The rows are written first, apart from the clock.
    ///
    /// # Errors
    /// The driver's; when rows are left.
    pub fn delete(&self, rows: usize, connections: usize) -> Outcome<f64> {
        self.copy(rows)?;
        let mut client = self.client()?;
        client.batch_execute("ANALYZE floor")?;
        client.batch_execute("CHECKPOINT")?;
        let mut clients = (0..connections)
            .map(|_| {
                let mut client = self.client()?;
                let delete = client.prepare(DELETE)?;
                Ok((client, delete))
            })
            .collect::<Outcome<Vec<_>>>()?;
        let rate = rate(rows, || {
            in_threads(&mut clients, |(client, delete)| {
                while !client.query(&*delete, &[])?.is_empty() {}
                Ok(())
            })
        })?;
        nothing_is_left(&mut client)?;
        Ok(rate)
    }

    /// Rows a second that many connections insert one by one, each its own commit, prepared,
    /// with the new id answered: what an enqueue cannot do without.
    ///
    /// # Errors
    /// The driver's.
    pub fn insert(&self, rows: usize, connections: usize) -> Outcome<f64> {
        const INSERT: &str =
            "INSERT INTO floor (queue, payload) VALUES ($1, $2::text::jsonb) RETURNING id";
        let mut clients = (0..connections)
            .map(|_| {
                let mut client = self.client()?;
                let insert = client.prepare(INSERT)?;
                Ok((client, insert))
            })
            .collect::<Outcome<Vec<_>>>()?;
        let each = rows / connections;
        rate(each * connections, || {
            in_threads(&mut clients, |(client, insert)| {
                for _ in 0..each {
                    let payload = Parcel::new(1).json();
                    client.query_one(&*insert, &[&"q", &payload])?;
                }
                Ok(())
            })
        })
    }
}

fn nothing_is_left(client: &mut Client) -> Outcome {
    let left: i64 = client.query_one("SELECT count(*) FROM floor", &[])?.get(0);
    match left {
        0 => Ok(()),
        left => Err(format!("the floor left {left} rows").into()),
    }
}

/// Does something with each, each on a thread of its own.
fn in_threads<T: Send>(all: &mut [T], work: impl Fn(&mut T) -> Outcome + Sync) -> Outcome {
    std::thread::scope(|scope| {
        let threads: Vec<_> = all
            .iter_mut()
            .map(|one| scope.spawn(|| work(one)))
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?)
    })
}
