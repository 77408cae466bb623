//! A sink that fails keeps its error: a closed pipe can be told from a full disk.

use std::io::{self, ErrorKind, Write};

use reports::{RequestLog, StepLog, json, rows, text};

use crate::samples;

/// Takes `room` bytes, then fails.
struct Closing {
    room: usize,
    kind: ErrorKind,
}

impl Write for Closing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.room == 0 {
            return Err(self.kind.into());
        }
        let taken = bytes.len().min(self.room);
        self.room -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.room == 0 { Err(self.kind.into()) } else { Ok(()) }
    }
}

#[test]
fn every_writer_hands_the_error_up_unchanged() {
    type Writer = fn(&mut Closing) -> io::Result<()>;
    let writers: [(&str, Writer); 16] = [
        ("text run", |sink| text::run(&samples::run(), sink)),
        ("text price", |sink| text::price(&samples::price(), sink)),
        ("text ladder", |sink| text::ladder(&samples::ladder(), sink)),
        ("text explain", |sink| text::explain(&samples::explain(), sink)),
        ("warnings", |sink| text::warnings(&samples::warnings(), sink)),
        ("json", |sink| json::write(&samples::run(), sink)),
        ("rows run", |sink| rows::run(&samples::run(), sink)),
        ("rows price", |sink| rows::price(&samples::price(), sink)),
        ("rows ladder", |sink| rows::ladder(&samples::ladder(), sink)),
        ("rows explain", |sink| rows::explain(&samples::explain(), sink)),
        ("text sweep", |sink| text::sweep(&samples::sweep(&[7]), sink)),
        ("text propose", |sink| text::propose(&samples::propose(), sink)),
        ("rows propose", |sink| rows::propose(&samples::propose(), sink)),
        ("rows sweep", |sink| {
            let (manifest, points) = samples::sweep_points(&[7]);
            let mut rows = rows::SweepRows::new(&manifest, sink)?;
            rows.point(&points[0])?;
            rows.finish()
        }),
        ("steps", |sink| StepLog::new(sink).header(&samples::step_header())),
        ("requests", |sink| {
            let mut log = RequestLog::new(sink)?;
            log.request(&samples::request())?;
            log.finish().map(|_| ())
        }),
    ];
    for (name, write) in writers {
        for room in [0, 1, 60] {
            for kind in [ErrorKind::BrokenPipe, ErrorKind::StorageFull] {
                let error = write(&mut Closing { room, kind }).expect_err(name);
                assert_eq!(error.kind(), kind, "{name} with room for {room} bytes");
            }
        }
    }
}
