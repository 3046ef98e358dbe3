// How lines of Markdown begin, and what an incomplete beginning can still become.

// A line of only these could still become a rule, a heading, a list, a fence or a table.
export const UNCLEAR = /^[\s>\-*+_#~`|:\d.)=]*$/;
export const MARKS = /^[\s>\-*+_#~`|:\d.)=]*/;
export const FENCE = /^ {0,3}(`{3,}(?!.*`)|~{3,})\s*([^\s`]*)/;
export const HEADING = /^ {0,3}(#{1,6})[ \t]+(.*)$/s;
export const RULE = /^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$/;
export const ITEM = /^( {0,3})([-*+]|(\d{1,9})[.)])([ \t]+|$)/;
export const QUOTE = /^ {0,3}> ?/;
export const ROW = /^[\s>]*\|/;
export const TASK = /^\[([ xX])\][ \t]+(?=\S)/;
// The beginning of an item that could still become a task.
export const HALF_TASK = /^[\s>]*(?:(?:[-*+]|\d{1,9}[.)])[\s>]+)+\[(?:[ xX]?|[ xX]\][ \t]*)$/;
export const HALF_DASHES = /^[\s>|:\-]*$/;
