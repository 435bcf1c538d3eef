//! Many letters, inserted as workers do.

use redrive::postgres::Client;

use crate::Outcome;

/// Splits the numbers from 1 to `count` into steps: the first and the last number of each.
pub fn steps(count: i64, step: i64) -> impl Iterator<Item = (i64, i64)> {
    let starts = (0..).map(move |number| number * step + 1);
    let starts = starts.take_while(move |from| *from <= count);
    starts.map(move |from| (from, count.min(from + step - 1)))
}

/// Inserts letters, a thousand a statement. The statement gets the first and the last number, and the number of all.
pub fn fill_letters(client: &mut Client, statement: &str, letters: i64) -> Outcome {
    let fill = client.prepare(statement)?;
    for (from, to) in steps(letters, 1000) {
        client.execute(&fill, &[&from, &to, &letters])?;
        if from % 50_000 == 1 || to == letters {
            let fold = "SELECT redrive.fold_letters()";
            while client.query_one(fold, &[])?.get::<_, i64>(0) > 0 {}
        }
    }
    Ok(client.batch_execute("VACUUM ANALYZE")?)
}
