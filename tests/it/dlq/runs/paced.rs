//! What a run does next: it goes on, begins another stage, or halts.

use redrive_tests::prelude::*;

/// What follows for a run of 1,000 whose canary of ten was sent, with this change.
const DECIDED: &str = r#"
    SELECT CASE
        WHEN p.state = 'halted' THEN p.halted_because
        WHEN p.stage > r.stage THEN concat('stage ', p.stage, ' to ' || p.stage_to)
        ELSE 'goes on'
    END
    FROM jsonb_populate_record(NULL::redrive.redrive_runs,
        '{"state": "running", "canary": 10, "tolerated": 10, "stage": 0, "stage_to": 10, "cursor": 10,
          "total": 1000, "sent": 10, "recovered": 0, "died_alike": 0, "died_differently": 0, "stage_sent": 0,
          "stage_recovered": 0, "stage_died": 0}'::jsonb || $1::text::jsonb) r
    CROSS JOIN LATERAL redrive.paced(r) p"#;

#[track_caller]
fn decides(base: &Value, table: &[(Value, &str)]) {
    let (_test, mut client) = TestDatabase::with_client();
    for (change, expected) in table {
        let mut run = base.as_object().expect("an object").clone();
        run.extend(change.as_object().expect("an object").clone());
        let run = Value::from(run).to_string();
        let decided: String = client.ask(DECIDED, &[&run]);
        assert_eq!(decided, *expected, "{change}");
    }
}

#[test]
fn the_canary_decides_what_follows() {
    let lost = "2 of the 10 letters of the canary died again";
    decides(
        &json!({}),
        &[
            (json!({"cursor": 0, "sent": 0}), "goes on"),
            (json!({}), "goes on"),
            (json!({"recovered": 8}), "goes on"),
            (json!({"recovered": 9}), "stage 1 to 50"),
            (json!({"recovered": 9, "died_alike": 1}), "stage 1 to 50"),
            (json!({"recovered": 8, "died_differently": 1}), "goes on"),
            // Two of ten is more than a tenth, however many still run, or wait to be sent.
            (json!({"died_alike": 1, "died_differently": 1}), lost),
            (json!({"cursor": 4, "sent": 4, "died_alike": 2}), lost),
            (
                json!({"cursor": 4, "sent": 4, "recovered": 3, "died_alike": 1}),
                "goes on",
            ),
            // A small canary may not lose one.
            (
                json!({"canary": 1, "stage_to": 1, "cursor": 1, "sent": 1, "died_alike": 1}),
                "1 of the 1 letters of the canary died again",
            ),
            // Members that were skipped hold nothing up.
            (json!({"sent": 0}), "stage 1 to 50"),
        ],
    );
}

#[test]
fn stages_grow_fourfold_and_then_there_is_no_bound() {
    let ended = |stage, to| json!({"stage": stage, "stage_to": to, "cursor": to, "sent": to, "recovered": to});
    let died = json!({"stage": 1, "stage_to": 50, "cursor": 50, "sent": 50, "recovered": 44, "died_alike": 6});
    decides(
        &json!({}),
        &[
            (ended(1, 50), "stage 2 to 210"),
            (ended(2, 210), "stage 3"),
            // The canary after a halt.
            (ended(7, 220), "stage 8"),
            (died, "6 of the 50 letters of the stage died again"),
        ],
    );
}

#[test]
fn after_the_ramp_a_window_is_judged() {
    decides(
        &json!({"stage": 3, "stage_to": null, "cursor": 900, "sent": 900}),
        &[
            (json!({"died_alike": 19}), "goes on"),
            (json!({"recovered": 18, "died_alike": 2}), "goes on"),
            (
                json!({"recovered": 17, "died_alike": 3}),
                "3 of the last 20 letters died again",
            ),
            (json!({"recovered": 181, "died_alike": 18}), "goes on"),
            (json!({"recovered": 180, "died_alike": 20}), "stage 4"),
            (
                json!({"recovered": 150, "died_alike": 50}),
                "50 of the last 200 letters died again",
            ),
            // The outcomes since the window began.
            (
                json!({"recovered": 415, "died_alike": 46, "stage_sent": 500, "stage_recovered": 400, "stage_died": 40}),
                "6 of the last 21 letters died again",
            ),
        ],
    );
}

#[test]
fn a_run_without_a_canary_halts_on_too_many_deaths_of_a_sample() {
    decides(
        &json!({"canary": 0, "stage_to": null, "cursor": 900, "sent": 900}),
        &[
            // The default: more than a tenth of at least 20 outcomes.
            (json!({"died_alike": 19}), "goes on"),
            (
                json!({"died_alike": 20}),
                "20 of the last 20 letters died again",
            ),
            // Another share.
            (
                json!({"tolerated": 0, "recovered": 19, "died_alike": 1}),
                "1 of the last 20 letters died again",
            ),
            (json!({"tolerated": 0, "recovered": 20}), "goes on"),
            (
                json!({"tolerated": 50, "recovered": 10, "died_alike": 10}),
                "goes on",
            ),
            (
                json!({"tolerated": 50, "recovered": 10, "died_alike": 11}),
                "11 of the last 21 letters died again",
            ),
            (json!({"tolerated": 100, "died_alike": 900}), "stage 1"),
        ],
    );
}
