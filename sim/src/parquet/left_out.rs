//! A build without the tables: nobody has a [`Parquet`], so that nothing here is ever called.

use std::convert::Infallible;
use std::io::{self, Write};
use std::marker::PhantomData;

use reports::{CandidateReport, Log, SweepManifest, SweepPoint};

use super::{About, TakeRows};

/// That tables can be written: never in this build.
#[derive(Clone, Copy, Debug)]
pub enum Parquet {}

/// A log of rows, of which there is none in this build.
#[derive(Debug)]
pub struct RowLog<W> {
    never: Infallible,
    sink: PhantomData<W>,
}

/// The tables of a sweep, of which there are none in this build.
#[derive(Debug)]
pub struct PointTables<'a, W> {
    never: Infallible,
    sink: PhantomData<&'a mut W>,
}

#[expect(clippy::missing_errors_doc, reason = "as in the other build")]
#[expect(missing_docs, reason = "as in the other build")]
impl Parquet {
    /// That tables cannot be written in this build.
    pub fn of_this_build() -> Option<Self> {
        None
    }

    pub fn log<W: Write>(self, _sink: W, _candidate: &str, _seed: u64) -> RowLog<W> {
        match self {}
    }

    pub fn steps<W: Write>(
        self,
        _about: &About<'_>,
        _sink: &mut W,
        _give: impl FnOnce(&mut TakeRows<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        match self {}
    }

    pub fn requests<W: Write>(
        self,
        _about: &About<'_>,
        _sink: &mut W,
        _give: impl FnOnce(&mut TakeRows<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        match self {}
    }

    pub fn rungs<'r>(
        self,
        _about: &About<'_>,
        _sink: &mut impl Write,
        _runs: impl Iterator<Item = (u64, &'r CandidateReport)>,
    ) -> io::Result<()> {
        match self {}
    }

    pub fn figures<'r>(
        self,
        _about: &About<'_>,
        _sink: &mut impl Write,
        _runs: impl Iterator<Item = (u64, &'r CandidateReport)>,
    ) -> io::Result<()> {
        match self {}
    }

    pub fn points<'a, W: Write>(
        self,
        _manifest: &SweepManifest,
        _about: &About<'_>,
        _sinks: [&'a mut W; 2],
    ) -> io::Result<PointTables<'a, W>> {
        match self {}
    }
}

#[expect(clippy::missing_errors_doc, reason = "as in the other build")]
#[expect(missing_docs, reason = "as in the other build")]
impl<W> RowLog<W> {
    pub fn finish(self) -> io::Result<W> {
        match self.never {}
    }
}

impl<R, W> Log<R> for RowLog<W> {
    fn record(&mut self, _record: &R) -> io::Result<()> {
        match self.never {}
    }
}

#[expect(clippy::missing_errors_doc, reason = "as in the other build")]
#[expect(missing_docs, reason = "as in the other build")]
impl<W> PointTables<'_, W> {
    pub fn point(&mut self, _point: &SweepPoint) -> io::Result<()> {
        match self.never {}
    }

    pub fn finish(self) -> io::Result<()> {
        match self.never {}
    }
}
