// What WebDriver gives a script: it is run as the body of a function.

declare const arguments: any[];
