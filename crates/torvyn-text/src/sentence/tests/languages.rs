//! Rules that hold in one language or script; `|` marks the boundaries.

use super::*;
use crate::sentence::Language;

/// The boundaries when the language is detected and when it is given.
#[track_caller]
fn check_in(code: &str, marked: &str) {
    check(marked);
    check_given(code, marked);
}

#[track_caller]
fn check_given(code: &str, marked: &str) {
    let options = Options { language: Language::from_code(code), ..Options::default() };
    let expected: Vec<&str> = marked.split('|').collect();
    assert_eq!(split_pieces(options, [expected.concat().as_str()]), expected, "{code}");
}

#[test]
fn german() {
    check_in(
        "de",
        "Am 3. Mai und am 12. Juni war es z. B. in der Hauptstr. 5 kalt. |Danach kam Dr. med. Weber.",
    );
    check_in(
        "de",
        "Der 2. Weltkrieg endete 1945. |Es war Frühling. |Das sind 3. |Dann kam er, d. h. Das Kind.",
    );
}

#[test]
fn french() {
    check_in(
        "fr",
        "M. Dupont et Mme. Roy mangent des fruits, p. ex. Des pommes, etc. |Puis ils vont à l'av. Foch.",
    );
}

#[test]
fn spanish() {
    check_in("es", "El Sr. Paz y la Dra. Gil viven en los EE. UU. con el Lic. Ruiz. |Vea la pág. 5.");
}

#[test]
fn italian() {
    check_in("it", "Il sig. Rossi e l'avv. Bo con la dott.ssa Neri sono qui, ecc. |Vedi pag. 3 e l'art. 5.");
}

#[test]
fn russian() {
    check_in(
        "ru",
        "Он жил на ул. Ленина в г. Москве, т. е. Далеко, в 1990 г. и позже. |Хлеб и т. д. |Потом домой.",
    );
    check("Конец главы.|Новая глава. |Он из г.Москва. |См. № 5.");
}

#[test]
fn languages_with_ordinals() {
    check_in("da", "Mødet er på 5. sal den 7. Juni og ikke på 4. |Vi ses.");
    check_in("sk", "Toto je až 10. pokus a XII. Pluk. |Ale nie.");
    check_in("fi", "Tapaamme 6. joulukuuta. |Silloin on juhla.");
}

#[test]
fn english_numbers_are_no_ordinals() {
    check("They were 12. |June came. |he was 13. |and then 14.");
}

#[test]
fn greek_asks_with_a_semicolon() {
    check_in("el", "Τι κάνεις; |Είμαι καλά. |a; b");
}

#[test]
fn armenian_ends_with_a_colon_and_goes_on_after_a_dot() {
    check_in("hy", "Ի՞նչ ես մտածում: |Ոչինչ...: |Այո` սա է. պարզ է: |Ժամը 10:30 է: ");
}

#[test]
fn a_particle_opens_a_sentence_only_in_its_language() {
    check("He met J. Le Carre in the U.S. |There he wrote.");
    check_given("fr", "Il vit aux U.S. |Le pays est grand.");
}

#[test]
fn the_language_is_known_from_earlier_sentences() {
    check("Das ist der Hund und das ist die Katze. |3. Stock, 4. Stock.");
}

#[test]
fn simple_mode_takes_no_notice_of_the_language() {
    for code in ["de", "hi"] {
        let options =
            Options { mode: Mode::Simple, language: Language::from_code(code), ..Options::default() };
        assert_eq!(split_pieces(options, ["Am 3.", " Mai", "है।", "."]), ["Am 3.", "Maiहै।."]);
    }
}

#[test]
fn an_idle_flush_forgets_no_language() {
    let mut splitter = Splitter::new(Options::default());
    splitter.put("Das ist der Hund und die", |_| {});
    splitter.flush_idle();
    splitter.put(" Katze im 3. Stock", |sentence| panic!("{sentence:?} was cut off"));
}
