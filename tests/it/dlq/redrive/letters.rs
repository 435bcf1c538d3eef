//! The effect of a redrive on letters and their jobs.

use redrive_tests::prelude::*;

use super::fixable;

#[test]
fn a_redriven_job_keeps_its_id_and_history_and_gets_fresh_attempts() {
    let (_test, queue) = TestDatabase::with_orders();
    let (worker, _) = fixable(&queue);
    let new = new_order(1).priority(4).max_attempts(2);
    let id = put(&queue, new);
    finish(&queue, worker);
    let letter = queue.letter(id);

    let redriven = queue.redrives(&only(id));
    assert_eq!((redriven.redriven, redriven.skipped), (vec![id], vec![]));
    let job = queue.live(id);
    assert_eq!((job.state, job.priority), (JobState::Ready, 4));
    assert_eq!(job.max_attempts, 2);
    assert_eq!((job.attempts, job.generation, job.history.len()), (0, 1, 2));
    assert_eq!(job.payload.get(), letter.payload.expect("JSON").get());
    assert_eq!(job.enqueued_at, letter.enqueued_at);
    let letter = queue.letter(id);
    assert_eq!(letter.state, LetterState::Redriving);
}

/// The server or the client would hold all of them at once.
#[test]
fn large_letters_are_read_edited_archived_restored_and_sent_back_in_parts() {
    let (_test, mut client) = TestDatabase::with_client();
    client.sql(
        "ALTER TABLE redrive.dead_letters ALTER COLUMN payload SET STORAGE EXTERNAL;
         INSERT INTO redrive.dead_letters (queue, kind, cause, error_class, error_message, payload, enqueued_at)
         SELECT 'orders', 'order', 'rejected', 'E', 'e', to_json(repeat('x', 1000000)), now()
         FROM generate_series(1, 40);
         ALTER TABLE redrive.archived_letters ALTER COLUMN payload SET STORAGE EXTERNAL;
         INSERT INTO redrive.archived_letters SELECT l.* FROM redrive.dead_letters l;
         UPDATE redrive.archived_letters SET id = id + 1000, archived_at = now();
         CREATE TABLE public.statements (letters bigint);
         CREATE FUNCTION public.note_statement() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN INSERT INTO public.statements SELECT count(*) FROM sent; RETURN NULL; END $$;
         CREATE TRIGGER note_statement AFTER UPDATE ON redrive.dead_letters
             REFERENCING NEW TABLE AS sent FOR EACH STATEMENT EXECUTE FUNCTION public.note_statement()",
    );
    for page in [
        "page_letters('{}', 0, 100)",
        "restore_archived('{}', 0, 100, NULL, NULL)",
    ] {
        let letters = format!("SELECT count(*) FROM redrive.{page}");
        // Rolled back.
        let letters: i64 = client.transaction().unwrap().ask(&letters, &[]);
        assert!((1..40).contains(&letters), "{page}: {letters}");
    }
    assert_eq!(client.ask::<i64>("SELECT redrive.redrive('{}')", &[]), 40);
    let letters: Vec<i64> = client.column("SELECT letters FROM public.statements", &[]);
    assert_eq!((letters.len(), letters.iter().sum::<i64>()), (2, 40));
    client.sql("UPDATE redrive.dead_letters SET state = 'open'");
    let archive = "SELECT redrive.remove_letters('orders', 'open', '0', 'archive', 100)";
    let archived: i64 = client.ask(archive, &[]);
    assert!((1..40).contains(&archived), "{archived} archived");
}
