//! The statements of a worker about its jobs, run by a test.

use postgres::GenericClient;
use uuid::Uuid;

use crate::statement::statement;

/// A worker without a process and without a row.
#[derive(Clone, Copy, Debug)]
pub struct Hand<'a> {
    /// The queue that it serves.
    pub queue: &'a str,
    /// Its id.
    pub id: Uuid,
}

impl Hand<'_> {
    /// A worker of this queue.
    pub fn of(queue: &str) -> Hand<'_> {
        let id = Uuid::nil();
        Hand { queue, id }
    }

    /// Claims the ready jobs, of any kind and after any number of crashes, and returns their ids.
    ///
    /// # Panics
    ///
    /// If the statement fails.
    pub fn claims(&self, client: &mut impl GenericClient) -> Vec<i64> {
        let all = None::<Vec<String>>;
        let claimed = client.query(
            statement("claim"),
            &[
                &self.queue,
                &all,
                &Vec::<String>::new(),
                &1000_i64,
                &8_388_608_i64,
                &i32::MAX,
                &Uuid::new_v4(),
                &self.id,
                &vec![i32::MIN],
                &vec![0_i64],
                &vec![i32::MAX],
                &all,
                &i32::MAX,
            ],
        );
        let leases = claimed.expect("claim jobs");
        leases
            .iter()
            .flat_map(|lease| lease.get::<_, Vec<i64>>("ids"))
            .collect()
    }

    /// Makes delayed jobs that are due ready.
    ///
    /// # Panics
    ///
    /// If the statement fails.
    pub fn promotes(&self, client: &mut impl GenericClient) {
        let promoted = client.query(
            statement("promote"),
            &[&self.queue, &1000_i64, &0_i64, &0_i64, &10_000_i64],
        );
        promoted.expect("promote jobs");
    }

    /// Releases leases, or all of the worker, and returns the number of their jobs. `started` are those whose handlers
    /// have begun; `None`: any of them may have.
    ///
    /// # Panics
    ///
    /// If the statement fails.
    pub fn releases(
        &self,
        client: &mut impl GenericClient,
        leases: Option<&[Uuid]>,
        started: Option<&[i64]>,
    ) -> usize {
        let released = client.query(
            statement("release"),
            &[
                &self.id,
                &leases,
                &Vec::<Uuid>::new(),
                &0_i32,
                &started,
                &10_i32,
                &"manual",
            ],
        );
        released.expect("release jobs").len()
    }

    /// Ends a lease whose last jobs are done, this many, and returns whether the worker still held it.
    ///
    /// # Panics
    ///
    /// If the statement fails.
    pub fn ends(&self, client: &mut impl GenericClient, lease: Uuid, jobs: i32) -> bool {
        let ended = client.query(
            statement("settle_done"),
            &[
                &vec![lease],
                &self.queue,
                &vec![lease; 2],
                &vec!["succeeded", "attempts_done"],
                &vec![Some("order"), None],
                &vec![None, Some(0_i16)],
                &vec![i64::from(jobs); 2],
                &vec![0.0_f64, f64::from(jobs)],
                &vec![jobs],
                &false,
            ],
        );
        !ended.expect("settle what is done").is_empty()
    }
}
