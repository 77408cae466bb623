//! `figures.csv`: every figure of a candidate with one seed, read back.

use std::io::Read;

use thiserror::Error;

use crate::FIGURES;

/// One row of figures.csv.
#[derive(Clone, Debug, PartialEq)]
pub struct SeedFigures {
    /// Name of the candidate.
    pub candidate: String,
    /// The seed.
    pub seed: u64,
    /// The figures in the order of [`FIGURES`]; `None` where one is not defined, or the file has no such column.
    pub figures: Vec<Option<f64>>,
}

/// A figures.csv that cannot be read.
#[derive(Debug, Error)]
#[error("line {line}: {problem}")]
pub struct FiguresError {
    /// The line, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub problem: String,
}

impl SeedFigures {
    /// Reads all rows. Columns are found by their names; those that this version does not know are passed over.
    ///
    /// # Errors
    /// [`FiguresError`] for a row that is not of the header's length, a cell that is no finite number, a row that is there
    /// twice, or a file without the columns `candidate` and `seed`.
    pub fn read(source: impl Read) -> Result<Vec<Self>, FiguresError> {
        let mut reader = csv::Reader::from_reader(source);
        let header = reader.headers().map_err(|error| of_csv(&error))?.clone();
        let column = |name: &str| header.iter().position(|heading| heading == name);
        let key = |name: &str| {
            column(name).ok_or_else(|| FiguresError { line: 1, problem: format!("there is no column `{name}`") })
        };
        let (candidate, seed) = (key("candidate")?, key("seed")?);
        let places: Vec<Option<usize>> = FIGURES.iter().map(|spec| column(spec.name)).collect();
        if places.iter().all(Option::is_none) {
            return Err(FiguresError { line: 1, problem: "no column is a figure that this version knows".to_owned() });
        }
        let mut rows: Vec<Self> = Vec::new();
        for record in reader.records() {
            let record = record.map_err(|error| of_csv(&error))?;
            let line = record.position().map_or(0, csv::Position::line);
            let wrong = |problem: String| FiguresError { line, problem };
            let number = |place: usize| match &record[place] {
                "" => Ok(None),
                cell => match cell.parse::<f64>() {
                    Ok(value) if value.is_finite() => Ok(Some(value)),
                    _ => Err(wrong(format!("`{cell}` in column `{}` is not a number", &header[place]))),
                },
            };
            let row = Self {
                candidate: record[candidate].to_owned(),
                seed: record[seed].parse().map_err(|_| wrong(format!("`{}` is not a seed", &record[seed])))?,
                figures: places.iter().map(|place| place.map_or(Ok(None), number)).collect::<Result<_, _>>()?,
            };
            if rows.iter().any(|before| before.seed == row.seed && before.candidate == row.candidate) {
                return Err(wrong(format!("candidate `{}` with seed {} is there twice", row.candidate, row.seed)));
            }
            rows.push(row);
        }
        Ok(rows)
    }
}

fn of_csv(error: &csv::Error) -> FiguresError {
    let line = error.position().map_or(1, csv::Position::line);
    let problem = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("it has {len} cells, the header {expected_len}: the file was cut off or edited")
        }
        csv::ErrorKind::Utf8 { .. } => "it is not UTF-8".to_owned(),
        _ => error.to_string(),
    };
    FiguresError { line, problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_by_the_names_of_columns() {
        let text = "seed,new_figure,candidate,p99_tpot_ms,request_goodput\n7,1,\"a, b\",2.5,\n8,1,\"a, b\",3,4e0\n";
        let rows = SeedFigures::read(text.as_bytes()).expect("sound");
        let of = |row: &SeedFigures, name: &str| {
            row.figures[FIGURES.iter().position(|spec| spec.name == name).expect("a figure")]
        };
        assert_eq!((rows[0].candidate.as_str(), rows[0].seed, rows.len()), ("a, b", 7, 2));
        assert_eq!((of(&rows[0], "p99_tpot_ms"), of(&rows[0], "request_goodput")), (Some(2.5), None));
        assert_eq!((of(&rows[1], "request_goodput"), of(&rows[1], "steps")), (Some(4.0), None));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, line, part) in [
            ("", 1, "no column `candidate`"),
            ("candidate,seed\na,1\n", 1, "no column is a figure"),
            ("candidate,seed,steps\na,1,5\na,2\n", 3, "2 cells, the header 3"),
            ("candidate,seed,steps\na,1,x\n", 2, "`x` in column `steps` is not a number"),
            ("candidate,seed,steps\na,1,NaN\n", 2, "is not a number"),
            ("candidate,seed,steps\na,one,5\n", 2, "`one` is not a seed"),
            ("candidate,seed,steps\na,1,5\na,1,5\n", 3, "there twice"),
        ] {
            let error = SeedFigures::read(text.as_bytes()).expect_err(text);
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(error.problem.contains(part), "{text}: {error}");
        }
    }
}
