//! The user's terminal: taken over for a view, and given back clean however that ends.
//!
//! A view is drawn on the controlling terminal, not on standard output: `sim run --watch > report.txt` shows the view and
//! writes the report.

mod keyboard;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::mem::ManuallyDrop;
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::Event;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};
use ratatui::layout::{Position, Rect};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use self::keyboard::Keyboard;
use super::action::{Action, action};
use super::session::Display;
use super::state::State;
use super::view;

/// The controlling terminal, whatever standard input and output are.
const TERMINAL: &str = "/dev/tty";

/// Whether the terminal is taken over just now; what must be undone however the process ends.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// A thread has panicked meanwhile.
static PANICKED: AtomicBool = AtomicBool::new(false);

/// The terminal, taken over until this is dropped.
#[derive(Debug)]
pub struct Screen {
    /// Never dropped: what cannot show the cursor says so on standard error, which may be the terminal that is gone.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<BufWriter<File>>>>,
    keyboard: Keyboard,
    /// A signal asks to leave, or there is no terminal any more.
    signalled: Arc<AtomicBool>,
    /// The view is over, and the process goes on without it.
    over: Arc<AtomicBool>,
    /// The process was stopped and goes on: the terminal was somebody else's meanwhile.
    resumed: Arc<AtomicBool>,
    colour: bool,
}

/// Why a view cannot be drawn.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum ScreenError {
    /// There is no terminal.
    #[error("a view needs a terminal, and this process has none")]
    #[diagnostic(help(
        "run it in a terminal (`ssh -t`, `docker run -it`), or look at a run without one: `sim run` prints its report"
    ))]
    None,
    /// It can only print.
    #[error("a view needs a terminal that can move its cursor, and TERM says `dumb`")]
    #[diagnostic(help(
        "set TERM to what your terminal is (`TERM=xterm`), or look at a run without a view: `sim run` prints its report"
    ))]
    Dumb,
    /// It could not be taken over.
    #[error("cannot draw on the terminal: {0}")]
    Io(#[from] io::Error),
}

impl Screen {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// If there is none that can be drawn on.
    pub fn open() -> Result<Self, ScreenError> {
        if std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
            return Err(ScreenError::Dumb);
        }
        let file = File::options().read(true).write(true).open(TERMINAL).map_err(|_| ScreenError::None)?;
        restore_before_panics();
        enable_raw_mode()?;
        TAKEN.store(true, Ordering::SeqCst);
        let backend = CrosstermBackend::new(BufWriter::new(file));
        // From here on, dropping this gives the terminal back.
        let mut screen = Self {
            terminal: ManuallyDrop::new(Terminal::new(backend).inspect_err(|_| restore())?),
            keyboard: Keyboard::open().inspect_err(|_| restore())?,
            signalled: Arc::new(AtomicBool::new(false)),
            over: Arc::new(AtomicBool::new(false)),
            resumed: Arc::new(AtomicBool::new(false)),
            colour: may_use_colour(std::env::var_os("NO_COLOR")),
        };
        // In this order: the first signal finds nothing asked for yet, the second ends the process. A terminal that is lost
        // says so twice, by itself and by the end of the shell in it, so of that signal the second is as the first.
        for (signal, ends) in [(SIGINT, &screen.signalled), (SIGTERM, &screen.signalled), (SIGHUP, &screen.over)] {
            flag::register_conditional_default(signal, ends.clone())?;
            flag::register(signal, screen.signalled.clone())?;
        }
        flag::register(SIGCONT, screen.resumed.clone())?;
        screen.enter()?;
        Ok(screen)
    }

    /// Begins with an empty screen, also where there is no alternate one.
    fn enter(&mut self) -> io::Result<()> {
        execute!(self.terminal.backend_mut(), EnterAlternateScreen, cursor::Hide)?;
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::from((Position::ORIGIN, size)))
    }

    /// Takes the terminal over once more: whoever had it meanwhile has set other modes, which are not those to give back.
    fn retake(&mut self) -> io::Result<()> {
        disable_raw_mode()?;
        enable_raw_mode()?;
        self.enter()
    }

    fn render(&mut self, state: &State) -> io::Result<()> {
        if self.resumed.swap(false, Ordering::SeqCst) {
            self.retake()?;
        }
        self.terminal.draw(|frame| view::render(frame, state, frame.area())).map(drop)
    }

    /// Whether colours may be used.
    #[must_use]
    pub fn colour(&self) -> bool {
        self.colour
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.terminal.show_cursor();
        restore();
        // Signals end the process again, which ends by itself if one was there already.
        let ends = self.signalled.swap(true, Ordering::SeqCst);
        self.over.store(!ends, Ordering::SeqCst);
    }
}

impl Display for Screen {
    fn draw(&mut self, state: &State) -> io::Result<()> {
        // A thread that panicked has given the terminal back, and its message stands there.
        if TAKEN.load(Ordering::SeqCst) {
            self.render(state).inspect_err(|_| self.signalled.store(true, Ordering::SeqCst))?;
        }
        Ok(())
    }

    fn action(&mut self, patience: Duration) -> io::Result<Option<Action>> {
        let asked_to_leave = || self.signalled.load(Ordering::SeqCst) || PANICKED.load(Ordering::SeqCst);
        if asked_to_leave() {
            return Ok(Some(Action::Interrupt));
        }
        // The next drawing takes a new size.
        Ok(self.keyboard.next(patience)?.and_then(|event| if let Event::Key(key) = event { action(key) } else { None }))
    }
}

/// `NO_COLOR` counts if it is not empty.
fn may_use_colour(no_color: Option<OsString>) -> bool {
    no_color.is_none_or(|value| value.is_empty())
}

/// Gives the terminal back, if it is taken.
fn restore() {
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    if let Ok(mut file) = File::options().write(true).open(TERMINAL) {
        // Where there is no alternate screen, the view would stand there.
        let _ = execute!(file, Clear(ClearType::All), cursor::MoveTo(0, 0), LeaveAlternateScreen, cursor::Show);
        let _ = file.flush();
    }
    let _ = disable_raw_mode();
}

/// A panic of any thread is printed on a terminal that is given back before.
fn restore_before_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if TAKEN.load(Ordering::SeqCst) {
                PANICKED.store(true, Ordering::SeqCst);
                restore();
            }
            before(panic);
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_color_counts_unless_it_is_empty() {
        assert!(may_use_colour(None));
        assert!(may_use_colour(Some(OsString::new())));
        assert!(!may_use_colour(Some("1".into())));
    }
}
