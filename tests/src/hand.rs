//! The statements of a worker about its jobs, run by a test.

use postgres::GenericClient;
use postgres::types::ToSql;
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
    pub fn claims(&self, client: &mut impl GenericClient) -> Vec<i64> {
        let Hand { queue, id } = self;
        let (all, none, lease) = (None::<Vec<String>>, Vec::<String>::new(), Uuid::new_v4());
        let (ranks, after, to) = (vec![i32::MIN], vec![0_i64], vec![i64::from(i32::MAX)]);
        let (bytes, most) = (8_388_608_i64, i32::MAX);
        let values: [&(dyn ToSql + Sync); 13] = [
            queue, &all, &none, &1000_i64, &bytes, &most, &lease, id, &ranks, &after, &to, &all,
            &most,
        ];
        let leases = client.query(statement("claim"), &values);
        let mut ids = Vec::new();
        for lease in leases.expect("claim jobs") {
            ids.extend(lease.get::<_, Vec<i64>>("ids"));
        }
        ids
    }

    /// Makes delayed jobs that are due ready.
    pub fn promotes(&self, client: &mut impl GenericClient) {
        let values: [&(dyn ToSql + Sync); 4] = [&self.queue, &1000_i64, &10_000_i64, &0_i64];
        let promoted = client.query(statement("promote"), &values);
        promoted.expect("promote jobs");
    }

    /// Releases leases, or all of the worker, and returns the number of their jobs. `started` are those whose handlers
    /// have begun; `None`: any of them may have.
    pub fn releases(
        &self,
        client: &mut impl GenericClient,
        leases: Option<&[Uuid]>,
        started: Option<&[i64]>,
    ) -> usize {
        let values: [&(dyn ToSql + Sync); 5] = [&self.id, &leases, &0_i32, &started, &10_i32];
        let released = client.query(statement("release"), &values);
        released.expect("release jobs").len()
    }

    /// Ends a lease whose last jobs are done, this many, and returns whether the worker still held it.
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
