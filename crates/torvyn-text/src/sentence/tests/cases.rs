//! One test per rule; `|` marks the boundaries.

use super::*;

#[test]
fn the_sentences_that_the_contract_names() {
    check("Dr. Smith paid $29. |Next.");
    check("See e.g. section 3.1. |Then stop.");
    check("My birthday is Jan 1, 1980. |Another sentence.");
    check("これはペンです。|次。");
    check("Wait... what? |\"Yes!\" she said.");
}

#[test]
fn white_space_after_a_boundary_belongs_to_the_sentence_before() {
    check("One.  \n |Two! \t|Three? ");
    check("  Leading white space. |Next.");
}

#[test]
fn titles_and_latin_shorthand_never_end_a_sentence() {
    check("Mr. and Mrs. Jones met Prof. Xu vs. Gen. Lee, i.e. The General, cf. Smith. |Fine.");
    check("It took approx. Ten days. |Ok.");
}

#[test]
fn an_acronym_ends_a_sentence_before_a_word_that_begins_one() {
    check("The U.S. Senate met. |He left the U.S. |The end.");
    check("He moved to the U.S. in May. |\"In the U.S.\" |He nodded.");
    check("She has a Ph.D. |It shows.");
    check("Apple Inc. CEO Tim Cook. |He works at Apple Inc. |They pay.");
    check("Main St. Bridge is closed, so is Elm St. |However, Oak St. is open.");
}

#[test]
fn initials_stay_with_the_name() {
    check("J. R. R. Tolkien and J.R.R. Tolkien and А. С. Пушкин wrote. |Yes.");
    check("It is plan B. |Then we go. |So am I. |Bob left.");
}

#[test]
fn months_and_days_are_abbreviations_only_with_a_capital() {
    check("On Jan. 5 and on Mon. Morning. |He sat. |Bob stood in the sun. |Warm.");
}

#[test]
fn etc_and_clock_times_end_a_sentence_before_a_capital() {
    check("Milk, eggs, etc. and bread, etc. |Then tea.");
    check("At 5 p.m. EST we met at 6 p.m. on Monday, left at 7 p.m. |Bring food. |At 8 a.m. |I slept.");
}

#[test]
fn no_is_a_word_unless_a_number_follows() {
    check("See No. 5 and Fig. 3 and vol. #2. |No. |I will not. |She said no. |ok.");
}

#[test]
fn numbers_versions_and_addresses_stay_whole() {
    check("Pi is 3.14. |Version 1.2.3 is out. |It costs $29.99! |Use v2. |Done.");
    check(
        "Visit https://example.com/a?b=1!c. |Mail me@example.org. |Open notes.txt. |Try .NET and Node.js. |Ok.",
    );
}

#[test]
fn an_ellipsis_ends_a_sentence_unless_a_small_letter_follows() {
    check("Well... maybe… not. |Hm... |The end… |Is it? |Wait . . . what.");
    check("What...? |Now.");
}

#[test]
fn runs_of_marks_stay_together() {
    check("What?! |No way!!! |Really?... |Yes.");
}

#[test]
fn closing_quotes_and_brackets_stay_with_their_stop() {
    check("He said \"Stop.\" |Then left. |(Really!) |Yes.");
    check("“Go!” he said. |“Go!” |He went. |‘No.’ |*Bold.* |**Done!** |End.");
    check("\"Stop!\" - he cried. |„Ja.“ |Gut. |«Oui !» |Bien.");
    check("\"Is it?\" (she asked) — yes. |He [sic.] said.");
}

#[test]
fn small_letters_may_begin_a_sentence() {
    check("hello there. |how are you? |i am fine! |npm works. |iPhone too.");
}

#[test]
fn list_numbers_stay_with_their_item() {
    check("1. First do this. |2. Then that.");
    check("Steps:\n|1. Wash\n|2. Dry\n|10) Fold\n|- one\n|* two\n|## Head\n|text");
    check("**1.** Bold item. |a. Letter item. |IV. Roman item. |How many? |5.\n|Fine.");
    check("<b>Total</b> 5. |Next. |<b>1.</b> Item.");
    check("It has\n3.5 grams and\n-5 degrees.");
}

#[test]
fn items_of_a_list_within_a_line_are_found_by_their_numbers() {
    check("1) Wash |2) Dry |3) Fold. |1.) One |2.) Two");
    check("• 9. The first |• 10. The second |• The third");
    check("a. Wash b |b. Dry |c. Fold");
    check("1) There are 3) of them and 2 of those |2) Yes");
    check("Take 1) salt and 2) pepper");
}

#[test]
fn letters_and_bullets_mark_items_at_the_head_of_a_line() {
    check("Choose\n|a) Red\n|b) Blue\n|• Green\n|iv. Grey");
    check("we met\nA. Smith and\nab) nothing");
}

#[test]
fn a_heading_ends_with_its_line() {
    check("# Title\n|text. |## Next one\n|- item");
    check("**Bold title**\n|text goes\non.");
    check("Introduction\n|This is it. |Not a title here\nBut wrapped.");
    check("Dear Bob,\nThanks for all. |Best wishes -\nAlice");
}

#[test]
fn a_citation_stays_with_the_stop_that_it_follows() {
    check("It is blue.[1] |The sea.[2][3] |It is.[12, 14] |See.[^note] |Then.¹ |End.");
    check("Use a.[key] = 1 and x.[not closed. |Next.");
}

#[test]
fn brackets_around_dots_stand_for_words_left_out() {
    check("He [...] Left and […] Returned [...]. |Then.");
}

#[test]
fn three_dots_apart_go_on_and_a_fourth_ends() {
    check("It is . . . I think. |No . . . . |Yes. |.NET works. |Hm. |...so be it.");
    check("“Less complex. . . .” |Next.");
}

#[test]
fn a_dash_and_a_small_letter_go_on_after_a_mark() {
    check("— Придёшь? — спросил он. |— Да! |- Нет.");
    check("Really? |— Yes. |Stop! |-5 is cold.");
}

#[test]
fn a_name_with_a_mark_ends_a_sentence_before_a_capital() {
    check("I left Yahoo! in May. |I joined Yahoo! |It was fun.");
}

#[test]
fn a_quotation_mark_may_close_after_white_space() {
    check("Il dit « Oui ! » et partit. |« Non. » |Il resta.");
}

#[test]
fn a_blank_line_is_a_boundary() {
    check("A title\n\n|Some text\non two lines\r\n\r\n|Dr.\n\n|Smith\n \n|End");
}

#[test]
fn tags_are_atomic() {
    check(
        "See <a title=\"No! Yes. Ok\">this</a> now. |<b>Dr.</b> Smith came.</p> |Next <br/>. |a < b. |I <3 it. |Ok.",
    );
}

#[test]
fn code_is_atomic() {
    check("Use `a. B! c` here. |Then ``x` Y. Z`` too. |Done.");
    check("Look:\n```py\nx. Y = 1\n\nprint()\n```\n|Then `open. Next.\nLast. |One.");
}

#[test]
fn stops_of_other_scripts_need_no_white_space() {
    check("你好！|真的吗？！|是的。|他说：好。");
    check("यह एक वाक्य है।| दूसरा वाक्य।|तीसरा॥ ");
    check("Բարեւ։| Այո։");
    check("هل أنت بخير؟ |نعم۔| شكرا.");
    check("ሰላም።| ደህና።");
    check("３．１４です。|はい．|いいえ。");
}

#[test]
fn quotations_in_cjk_stay_whole() {
    check("「はい。」と言った。|『え？』|「いいえ。そう。」|彼は（多分）帰った。");
    check("“你好。”|他说。|\"是。\"|好。");
}

#[test]
fn full_stops_that_mean_nothing_else_are_final_at_once() {
    for first in ["これは。", "यह है।", "یہ ہے۔", "သွားသည်။", "ሰላም።", "Սա է։"]
    {
        let mut splitter = Splitter::new(Options::default());
        let mut seen = Vec::new();
        splitter.put(first, |sentence| seen.push(sentence.to_owned()));
        assert_eq!(seen, [first]);
        assert_eq!(splitter.held_bytes(), 0);
        // The price: white space that does follow begins the next sentence.
        splitter.put("\n次。", |sentence| seen.push(sentence.to_owned()));
        assert_eq!(seen, [first, "\n次。"]);
    }
}

#[test]
fn scripts_mix() {
    check("Hello!|你好。|OK. |GPT-4.5是什么？|Version 2.是。|好的。|안녕하세요. |반갑습니다.");
}

#[test]
fn emoji_stay_with_the_stop_they_touch() {
    check("Great!😀 |Next. |👍🏽 ok! |❤️ Love.");
}

#[test]
fn text_without_stops_is_one_sentence() {
    check("สวัสดีครับ ผมชื่อสมชาย ยินดีที่ได้รู้จัก");
}

#[test]
fn punctuation_alone_is_no_sentence() {
    check("... !? \n\n.");
    assert_eq!(split(""), Vec::<String>::new());
}

#[test]
fn a_latin_stop_is_known_when_the_next_word_begins() {
    let mut splitter = Splitter::new(Options::default());
    let mut seen = Vec::new();
    for piece in ["Hi", ".", " ", "T"] {
        assert_eq!(seen, Vec::<String>::new());
        splitter.put(piece, |sentence| seen.push(sentence.to_owned()));
    }
    assert_eq!(seen, ["Hi. "]);
    assert_eq!(splitter.held_bytes(), 1);
}
