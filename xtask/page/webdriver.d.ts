// WebDriver runs a script as the body of a function with these arguments.

declare const arguments: any[];
