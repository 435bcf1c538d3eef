-- Purpose: What happens when other rows are added, changed and deleted.

CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON redrive.audit
    FOR EACH STATEMENT EXECUTE FUNCTION redrive.protect_audit();

CREATE OR REPLACE TRIGGER check_redaction BEFORE INSERT OR UPDATE ON redrive.redactions
    FOR EACH ROW EXECUTE FUNCTION redrive.check_redaction();

CREATE OR REPLACE TRIGGER count_regressions AFTER UPDATE OF last_seen ON redrive.groups
    FOR EACH ROW WHEN (NEW.state <> 'ignored' AND NEW.last_seen > NEW.resolved_at AND OLD.last_seen <= NEW.resolved_at)
    EXECUTE FUNCTION redrive.count_regressions();

CREATE OR REPLACE TRIGGER delete_contents AFTER DELETE ON redrive.archived_letters
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION redrive.delete_contents();
