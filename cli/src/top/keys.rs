//! What keys mean.

use super::state::State;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Move(isize),
    Sort,
    Filter,
    Type(char),
    Erase,
    Keep,
    Clear,
    Inspect,
    Back,
    Quit,
}

const PAGE: isize = 10;
const ALL: isize = isize::MAX;

/// Nothing, if it is no key that means anything here. A new size of the window is drawn in any case.
pub fn wish(event: &Event, state: &State) -> Option<Wish> {
    let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = *event else { return None };
    if modifiers.contains(KeyModifiers::CONTROL) {
        return (code == KeyCode::Char('c')).then_some(Wish::Quit);
    }
    match state.typing {
        true => while_typing(code),
        false => moving(code).or_else(|| commanding(code, state.detail.is_some())),
    }
}

fn while_typing(code: KeyCode) -> Option<Wish> {
    Some(match code {
        KeyCode::Char(character) => Wish::Type(character),
        KeyCode::Backspace => Wish::Erase,
        KeyCode::Enter => Wish::Keep,
        KeyCode::Esc => Wish::Clear,
        _ => return moving(code),
    })
}

fn moving(code: KeyCode) -> Option<Wish> {
    Some(Wish::Move(match code {
        KeyCode::Up => -1,
        KeyCode::Down => 1,
        KeyCode::PageUp => -PAGE,
        KeyCode::PageDown => PAGE,
        KeyCode::Home => -ALL,
        KeyCode::End => ALL,
        _ => return None,
    }))
}

fn commanding(code: KeyCode, in_detail: bool) -> Option<Wish> {
    Some(match (code, in_detail) {
        #[cfg(feature = "panic-probe")]
        (KeyCode::F(12), _) => panic!("a probe"),
        (KeyCode::Char('k'), _) => Wish::Move(-1),
        (KeyCode::Char('j'), _) => Wish::Move(1),
        (KeyCode::Char('q') | KeyCode::Esc | KeyCode::Enter, true) => Wish::Back,
        (KeyCode::Char('q'), false) => Wish::Quit,
        (KeyCode::Char('s'), false) => Wish::Sort,
        (KeyCode::Char('/'), false) => Wish::Filter,
        (KeyCode::Esc, false) => Wish::Clear,
        (KeyCode::Enter, false) => Wish::Inspect,
        _ => return None,
    })
}
