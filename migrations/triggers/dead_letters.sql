-- Purpose: What happens when letters are added, changed and deleted. PostgreSQL fires triggers of the same time in
--          the order of their names.

CREATE OR REPLACE TRIGGER delete_contents AFTER DELETE ON redrive.dead_letters
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION redrive.delete_contents();

CREATE OR REPLACE TRIGGER bury BEFORE INSERT ON redrive.dead_letters
    FOR EACH ROW EXECUTE FUNCTION redrive.complete_letter();
CREATE OR REPLACE TRIGGER reopen BEFORE UPDATE OF state ON redrive.dead_letters
    FOR EACH ROW WHEN (NEW.state = 'open' AND (OLD.state = 'redriving'
        OR OLD.state IN ('recovered', 'discarded') AND NEW.generation > OLD.generation))
    EXECUTE FUNCTION redrive.reopen();
-- Only a death or a capture changes the cause, and no job dies of the cause `captured`.
CREATE OR REPLACE TRIGGER refuse_death BEFORE UPDATE OF cause ON redrive.dead_letters
    FOR EACH ROW WHEN (NEW.generation <> OLD.generation + 1 OR OLD.state <> 'redriving'
        AND NOT (NEW.cause = 'captured' AND OLD.state IN ('recovered', 'discarded')))
    EXECUTE FUNCTION redrive.refuse_death();

CREATE OR REPLACE TRIGGER count_added AFTER INSERT ON redrive.dead_letters
    REFERENCING NEW TABLE AS moved FOR EACH STATEMENT EXECUTE FUNCTION redrive.count_moved_letters();
CREATE OR REPLACE TRIGGER count_changed AFTER UPDATE ON redrive.dead_letters
    REFERENCING OLD TABLE AS was NEW TABLE AS became
    FOR EACH STATEMENT EXECUTE FUNCTION redrive.count_changed_letters();
CREATE OR REPLACE TRIGGER count_removed AFTER DELETE ON redrive.dead_letters
    REFERENCING OLD TABLE AS moved FOR EACH STATEMENT EXECUTE FUNCTION redrive.count_moved_letters();

CREATE OR REPLACE TRIGGER record_run_outcomes AFTER UPDATE ON redrive.dead_letters
    REFERENCING NEW TABLE AS became FOR EACH STATEMENT EXECUTE FUNCTION redrive.record_run_outcomes();

-- Rows without a group cost one comparison.
CREATE OR REPLACE TRIGGER pass_turn_at_death AFTER INSERT ON redrive.dead_letters
    FOR EACH ROW WHEN (NEW.group_key IS NOT NULL) EXECUTE FUNCTION redrive.pass_turn();
CREATE OR REPLACE TRIGGER pass_turn AFTER UPDATE OF state ON redrive.dead_letters
    FOR EACH ROW WHEN (NEW.group_key IS NOT NULL AND OLD.state <> NEW.state) EXECUTE FUNCTION redrive.pass_turn();
-- The slot of a redriving letter belongs to its live job.
CREATE OR REPLACE TRIGGER pass_turn_of_deleted AFTER DELETE ON redrive.dead_letters
    FOR EACH ROW WHEN (OLD.group_key IS NOT NULL AND OLD.state <> 'redriving') EXECUTE FUNCTION redrive.pass_turn();
