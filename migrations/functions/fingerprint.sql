-- Purpose: Fingerprints of failures: masked messages and the frames of stack traces.

-- A mask replaces the variable parts of a message by `?`, so that a thousand messages that differ in an id
-- are equal. It keeps words, identifiers and error codes, so that two causes stay apart.
--
-- Each step is one regular expression of the form (keep)|(prefix)value|value. Its replacement writes
-- `prefix` and then the characters 2 and 3 around `keep`, so a masked value leaves these characters next to each
-- other, and later steps skip what is between them. The longest of the alternatives that begin first
-- wins. No step distinguishes one digit from another, so if a mask contains no digit, it is also the mask of each
-- message that differs only in its digits. `complete_letter` relies on it.

-- Masks words with digits that are no codes wherever they occur. Most messages that differ in an id are equal
-- after this step, so that `complete_letter` runs the others, which take twenty times as long, only once.
--
-- A word with a digit may be a code after a word that ends like `code`, `error` or `status` (two letters are
-- faster to find than words), after a capital letter, in brackets, or if it has three digits in some places.
CREATE OR REPLACE FUNCTION redrive.mask_ids(message text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN replace(replace(replace(regexp_replace(left(message, 500) COLLATE "C",
        '((?:us|de|TP|or|OR|no|te|TE|al|it|th|as|ot|ve|ed|se)[^\w\s]?[ :=(\[#]+\S?\w*\d\w*|[A-Za-z_]*[A-Z][A-Za-z_]*[-/]?\d+'
        '|[a-z]+-?\d\d?\d?|^\d\d\d|^[0-9A-Z]+:|\d\d\d [A-Z]|[(\[][0-9A-Z]+[)\]])'
        -- A UUID, whose first groups may have no digit.
        '|[[:xdigit:]]{8}(?:-[[:xdigit:]]{4}){3}-[[:xdigit:]]{12}'
        '|([a-z]+_)\w*\d\w*(?:[.,:+/-]\w*\d\w*)*|eyJ[\w.-]+'
        '|\w*\d\w*(?:[.,:+/-]\w*\d\w*)*',
        '\2' || chr(2) || '\1' || chr(3), 'g'), chr(2) || chr(3), '?'), chr(2), ''), chr(3), '');

-- Masks what `mask_ids` leaves.
CREATE OR REPLACE FUNCTION redrive.mask_rest(message text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET standard_conforming_strings = on
AS $$
DECLARE
    -- The character classes of "C" are the same in every database.
    masked text COLLATE "C" := message;
BEGIN
    IF masked ~ '["''`\u201c]' THEN
        -- Masks quoted text unless it is an identifier: it follows or precedes a word such as `column`, or looks like an
        -- identifier (order_id, getTotal, com.acme.Order). It is data after a word such as `value`.
        masked := replace(regexp_replace(masked,
            '('
            -- An identifier after a word that announces one, and the list that it begins.
            '\m(?:[Cc]olumn|[Ff]ield|[Kk]ey|[Tt]able|[Rr]elation|[Cc]onstraint|[Pp]ropert(?:y|ies)|[Aa]ttribute|[Pp]aram(?:eter)?'
            '|[Aa]rgument|[Vv]ariable|[Ff]unction|[Mm]ethod|[Tt]ype|[Cc]lass|[Mm]odule|[Pp]ackage|[Ii]ndex|[Ss]equence|[Ss]chema'
            '|[Dd]atabase|[Tt]opic|[Qq]ueue|[Ss]ubject|[Rr]ole|[Ee]num|[Oo]ption|[Ff]lag|[Hh]eader|[Ss]etting|[Cc]ommand'
            '|[Oo]peration|[Aa]ction|[Pp]ermission|[Ss]cope|[Ss]ervice|[Mm]odel|[Ee]ntity|[Pp]ath|[Mm]ember|[Vv]iew|[Tt]rigger'
            '|[Ee]xtension|[Pp]lugin|[Kk]ind|[Mm]etric|[Rr]esource|[Ee]vent|[Ss]tate|[Ss]tatus|[Cc]ode|[Rr]eason|[Ee]xpected|[Mm]issing'
            '|[Rr]equired?|one of|parameter in input|KeyError|reading|setting|named|at)(?:\(s\)|e?s)?'
            '(?: (?:name|named|called|of|in|one of))?[ :=(\[]{1,3}'
            '(?:"(?:[A-Za-z_$.:-]|[A-Za-z_]\d{1,3})+(?:\(\))?"|''(?:[A-Za-z_$.:-]|[A-Za-z_]\d{1,3})+(?:\(\))?'''
            '|`(?:[A-Za-z_$.:-]|[A-Za-z_]\d{1,3})+(?:\(\))?[`''])'
            '(?:(?:, | or | and |, or )(?:"(?:[A-Za-z_$.:-]|[A-Za-z_]\d{1,3})+"|''(?:[A-Za-z_$.:-]|[A-Za-z_]\d{1,3})+'''
            '|`(?:[A-Za-z_$.:-]|[A-Za-z_]\d{1,3})+`))*'
            -- An identifier before such a word.
            '|["''`](?:[A-Za-z_$.:-]|[A-Za-z_]\d{1,3})+["''`] (?:object|argument|field|column|property|attribute|parameter'
            '|operation|method|function|header|key|codec|expected|is an? required|is (?:required|missing|undefined)'
            '|is not (?:defined|a function)|must|may not|cannot be|can''t be|should)\M'
            -- A text that looks like an identifier: snake case, camel case, two dots, or a call.
            '|["''`][a-z]+(?:_[a-z]+)+(?:_\d)?["''`]|["''`][A-Z]+(?:_[A-Z]+)+["''`]|["''`][A-Za-z][a-z]+[A-Z][A-Za-z]*["''`]'
            '|["''`][A-Za-z_$-]+(?:[.:]+[A-Za-z_$-]+){2,}(?:\(\))?["''`]|["''`][A-Za-z_$.:-]+\(\)["''`]'
            '|`(?:None|Some|Ok|Err|Self|self)`'
            -- The name of a type, and punctuation.
            '|["''](?:int|integer|str|string|float|double|number|bytes|bool|boolean|dict|list|tuple|set|object|array|null|undefined)["'']'
            '|["''`][^\w\s"''`?]{1,3}["''`]'
            -- The keys of JSON, and the values of some.
            '|[{,]\s*"[A-Za-z_][\w.-]*"\s*:'
            '|"(?:error_?)?(?:code|type|reason|status|Code|Type)"\s*:\s*"(?:[A-Za-z_$.:-]|[A-Za-z_]\d{1,3})+"'
            -- The message of a KeyError of Python is the key.
            '|^["''](?:[A-Za-z_$.:-]|[A-Za-z_]\d{1,3})+["'']$'
            -- An apostrophe.
            '|[A-Za-z]+''[A-Za-z]*'
            ')'
            -- Data after a word that announces it.
            '|(\m(?:[Vv]alues?|[Ss]tring|[Gg]ot|[Rr]eceived|[Ff]ound|[Uu]ser(?:name)?|[Vv]ariant|[Ee]ntry|[Tt]oken|literal|[Tt]ext'
            '|[Ii]d|ID|[Ee]-?mail|[Aa]ccount|[Cc]ustomer|[Tt]enant|[Hh]ost|[Uu]rl|URL|[Ff]ile(?:name)?|pars(?:e|ing)|[Oo]rder'
            '|[Ss]ession|[Rr]equest|[Pp]roject|[Nn]ear|than)[ :=(]{1,3})(?:"[^"]*"|''[^'']*(?:''\w+[^'']*)*''|`[^`]*`)'
            -- A URL, without its host.
            '|(["''`]https?://[A-Za-z-]+(?:\.[A-Za-z-]+)+)[^"''`]*["''`]'
            '|"[^"]*"|\m[bu]?''[^'']*(?:''\w+[^'']*)*''|''[^'']*(?:''\w+[^'']*)*''|`[^`'']*[`'']|\u201c[^\u201d]*\u201d',
            '\2\3' || chr(2) || '\1' || chr(3), 'g'), chr(2) || chr(3), '?');
    END IF;
    IF masked ~ '[/@=\\]|[Ii][Dd]:|contains \(|arn:' THEN
        -- Masks URLs except for a host without digits, paths, e-mail addresses, and the values of some keys.
        masked := replace(regexp_replace(masked,
            '(\u0002[^\u0003]*\u0003'
            -- Media types, and classes of the JVM.
            '|(?:application|text|image|audio|video|multipart|font)/[\w.+*-]+'
            '|\m(?:com|org|net|io|java|javax|jakarta)(?:/[\w$]+)+)'
            '|(https?://[A-Za-z-]+(?:\.[A-Za-z-]+)+)(?::[\d?]+)?(?:[/?#](?:[^\s"''<>()\u0002\u0003]*[^\s"''<>()\u0002\u0003,;:.])?)?'
            '|([a-z][a-z\d+.-]*://)[^\s"''<>()\u0002\u0003]*[^\s"''<>()\u0002\u0003,;:.]'
            -- The details of PostgreSQL.
            '|(\)=\(|\mcontains \()[^)]*'
            '|(\marn:)[^\s"'',]+'
            '|(\m[\w.-]*(?:[Uu]ser|[Nn]ame|[Ii][Dd]|[Mm]ail|[Tt]enant|[Cc]ustomer|[Aa]ccount|[Oo]wner|[Cc]lient|[Tt]oken|[Ss]ession'
            '|[Tt]race|[Hh]ost|[Aa]ddr(?:ess)?|[Uu]rl|[Ff]ile|[Pp]ath|[Ss]ku|[Oo]rder|[Kk]ey|[Vv]alue|[Pp]assword|[Ii]p|[Ll]ogin'
            '|[Pp]hone|[Nn]ode|[Pp]od|[Ii]nstance)=|\m[\w-]*[Ii][Dd]: ?)[^\s,;&()\[\]{}"''\u0002\u0003]+'
            -- Absolute paths, paths of Windows, e-mail addresses, relative paths.
            '|(^|[\s="''(\[,:<>])(?:/[\w.@%+~$*{}?-]+)+/?'
            '|\m[A-Za-z]:\\[^\s"'']+'
            '|[\w.+?-]+@[\w?-]+(?:\.[\w?-]+)+'
            '|[\w.?-]+/[\w.%?-]+(?:/[\w.%?-]+)+|[\w.?-]+/[\w.?-]+\.[a-z]+\M',
            '\2\3\4\5\6\7' || chr(2) || '\1' || chr(3), 'g'), chr(2) || chr(3), '?');
    END IF;
    IF masked ~ '\d' THEN
        -- Masks words that contain a digit, such as numbers, ids, addresses and timestamps, unless they are codes.
        masked := replace(regexp_replace(masked,
            '(\u0002[^\u0003]*\u0003'
            -- A code after a word that announces it.
            '|\m(?:SQLSTATE|SQLState|sqlstate|[Ee]rrno|os error|[Ss]tatus|STATUS|HTTP|http|[Cc]ode|CODE|[Ss]ignal|[Ee]xit(?:ed)?|Msg'
            '|HRESULT|NTSTATUS|(?:[Ee]rror|[Rr]esponse|[Rr]esult|[Rr]eturn|[Rr]eason|[Vv]endor)[_ ]?[Cc]ode)'
            '(?:[_ ]?(?:[Cc]ode|[Ss]tatus|with|number|error))*["'']?[ :=(\[#]{1,3}["'']?'
            '-?(?:\dx[[:xdigit:]]{2,8}|[A-Z]{0,8}[_-]?\d{1,7}[A-Z]{0,2}\d{0,3}|[0-9A-Z]{5})\M'
            '|\m(?:[Ee]rror|ERROR)(?: \(|[ #\[])\d{1,6}\M(?: \([0-9A-Z]{5}\))?|\m[Ee]rror: \d{3}\M|\m[A-Za-z]+: \(\d{1,3}\)'
            -- A status of HTTP.
            '|HTTP/\d(?:\.\d)? \d{3}\M|^\d{3}(?: [A-Z]|:|$)'
            '|\m\d{3} (?:Client Error|Server Error|Bad|Unauthorized|Payment|Forbidden|Not|Method|Proxy|Request|Conflict|Gone|Length'
            '|Precondition|Payload|URI|Unsupported|Range|Expectation|Unprocessable|Locked|Failed|Too|Upgrade|Internal|Service|Gateway'
            '|Insufficient)\M'
            '|\m(?:returned|answered|responded(?: with)?|replied(?: with)?|response|received|got|gave|with|was)(?: an?)?(?: error| status)?'
            ' \d{3}(?:$|[).,:;\]]| [A-Z]| (?:for|from|to|on|while|when|after|at|in|by|but|and|error)\M)'
            '|server on \? \(\d{1,3}\)'
            -- A SQLSTATE.
            '|^[0-9A-Z]{5}:|(?:violation|error|failed|failure|exception|deadlock|timeout) [(\[][0-9A-Z]{5}[)\]]|ERROR: [0-9A-Z]{5}\M'
            '|[(\[](?:\d\d?[A-Z]\d{2,3}|[A-Z][A-Z\d]\d{3})[)\]]'
            -- The codes of vendors, and terms that contain a digit.
            '|\m(?:ORA|TNS|PLS|DPY|DPI|SP\d|SQL|IMP|EXP|RMAN|MY|AMQ|JBAS|WFLY|HHH|AADSTS|PGRST|ERR|CVE|CS|TS|MSB|E|P)[-_]?\d{4,7}[A-Z]?\M'
            '|\m(?:expected|type|to|into|as|for) (?:an? )?[iuf]\d{1,3}\M'
            '|\m(?:int\d{1,2}|uint\d{1,2}|float\d{1,2}|[Uu]tf-?\d{1,2}|UTF-?\d{1,2}|[Ss]ha-?\d{1,3}|SHA-?\d{1,3}|md\d|MD\d|base\d\d|S\d'
            '|s\d:[A-Z]\w+|ec\d:[A-Z]\w+|EC\d|[Hh]ttp\d|HTTP/\d(?:\.\d)?|[Oo][Aa]uth\d|[Ii][Pp]v\d|x\d{3}|TLSv?\d(?:\.\d)?|SSLv\d|v\d)\M)'
            '|(\m(?:[Cc]oupon|[Pp]romo|[Vv]oucher|[Gg]ift|[Dd]iscount|[Vv]erification|[Ss]ecurity|[Aa]ccess|[Zz]ip|[Pp]ostal|[Pp]ost'
            '|[Aa]rea|[Cc]ountry|[Pp]roduct|[Ii]tem|[Tt]racking|[Bb]ank|[Ss]ort) [Cc]ode[ :=]{1,3})\S*\d\S*'
            -- Ids with a prefix, such as cus_4711 and ORD-4711.
            '|(\m[A-Za-z]{2,12}_)\w*\d\w*(?:[.,:+/-]\w*\d\w*)*|\m[A-Z]{1,4}-\w*\d\w*(?:[.,:+/-]\w*\d\w*)*'
            '|[[:xdigit:]]+(?:-[[:xdigit:]]+){4}|\w*\d\w*(?:[.,:+/-]\w*\d\w*)*',
            '\2\3' || chr(2) || '\1' || chr(3), 'g'), chr(2) || chr(3), '?');
    END IF;
    IF masked ~ ('j[bcdfghjklmnpqrtvwxz]|q[abcdefghijkmnoprsvwxyz]|v[bcdfghjkmnpqtwxz]|x[jkqz]|z[bcdfgjkmnpqrstvwx]|[kwfgh][jqxz]|[wfgh]v'
        '|p[jqxz]|c[jx]|[bd][qxz]|m[jxz]|l[jq]|s[xz]|[ty][qx]|[bcdfghjklmnpqrstvwxz]{5}|[a-z][A-Z][a-z][A-Z]')
    THEN
        -- Masks words of letters that nobody would choose: with pairs of letters that occur in no language, six
        -- consonants in a row, or mixed case. It finds most random tokens of eight and more letters.
        masked := replace(regexp_replace(masked,
            '(\u0002[^\u0003]*\u0003|[Hh][Tt][Tt][Pp][Ss]?)'
            '|(\m[a-z]{2,12}_)?(?=[A-Za-z]{6})[A-Za-z]*'
            '(?:j[bcdfghjklmnpqrtvwxz]|q[abcdefghijkmnoprsvwxyz]|v[bcdfghjkmnpqtwxz]|x[jkqz]|z[bcdfgjkmnpqrstvwx]|[kwfgh][jqxz]|[wfgh]v'
            '|p[jqxz]|c[jx]|[bd][qxz]|m[jxz]|l[jq]|s[xz]|[ty][qx]|[bcdfghjklmnpqrstvwxz]{6}|[a-z][A-Z][a-z][A-Z]|[A-Z][a-z][A-Z][a-z][A-Z])'
            '[A-Za-z]*\M'
            '|(-)[bcdfghjklmnpqrstvwxz]{5}\M',
            '\2\3' || chr(2) || '\1' || chr(3), 'g'), chr(2) || chr(3), '?');
    END IF;
    masked := translate(masked, chr(2) || chr(3), '');
    -- A list is one value, and so are a UUID, a date with a time and a number with a unit.
    IF masked ~ '\?[ ?.,:+/-]|[ (:+[-]\?|^[:+-]' THEN
        masked := regexp_replace(masked, '(^|[ ([])(?:[-+]|::)\?', '\1?', 'g');
        masked := regexp_replace(masked,
            '(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? )?(?:\?[ -])?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*,?[ -]+\?',
            '?', 'g');
        masked := regexp_replace(masked, '\?(?:,? \?|::\?|[.,:+/-]?\?|(?:-[[:xdigit:]]+)+-\?| (?:GMT|UTC|AM|PM)\M'
            '| (?:[num\u00b5\u03bc]?s|secs?|seconds?|millis|milliseconds?|m|mins?|minutes?|h|hours?|days?|[Bb]ytes?|[KMGTkm]?i?B)\M)+',
            '?', 'g');
    END IF;
    RETURN masked;
END
$$;

-- Returns the innermost frame of the application in a stack trace, without line numbers and addresses. NULL:
-- the text contains no such frame. Frames of standard libraries, runtimes and installed packages are skipped.
-- Knows the traces of Rust, Python, Go, the JVM and Node.
CREATE OR REPLACE FUNCTION redrive.top_frame(detail text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET standard_conforming_strings = on
AS $$
DECLARE
    trace text COLLATE "C" := left(detail, 16384);
    frame text;
BEGIN
    IF position('Traceback (most recent call last)' IN trace) > 0 THEN
        -- The innermost call is the last one.
        SELECT regexp_replace(m.found[1], '^.*[/\\]', '') || ' in ' || m.found[2] INTO frame
        FROM regexp_matches(trace, '^\s*File "([^"\n]+)", line \d+, in (\S+)', 'ng') WITH ORDINALITY AS m (found, place)
        WHERE m.found[1] !~ '[/\\](?:site|dist)-packages[/\\]|[/\\]lib[/\\]python|^<'
        ORDER BY m.place DESC
        LIMIT 1;
    ELSIF trace ~ '^goroutine \d+ \[' OR trace ~ '\ngoroutine \d+ \[' THEN
        SELECT m.found[1] INTO frame
        FROM regexp_matches(trace, '^([\w.%/-]+(?:\.\(\*?\w+\)[\w.]*)?)\([^\n]*\)\n\s+(\S+):\d+', 'ng') WITH ORDINALITY
            AS m (found, place)
        WHERE m.found[2] !~ '/go/src/|/pkg/mod/|/vendor/|/libexec/src/'
            AND m.found[1] !~ '^(?:runtime|panic|reflect|sync|testing|internal)\M'
        ORDER BY m.place
        LIMIT 1;
    ELSIF trace ~ '^ *\d+: +\S' OR trace ~ '\n *\d+: +\S' THEN
        SELECT regexp_replace(m.found[1], '::h[[:xdigit:]]{16}$', '') INTO frame
        FROM regexp_matches(trace, '^ *\d+: +(?:\dx[[:xdigit:]]+ - )?([\w<&][^\n]*?)(?: at [^\n]*)?$', 'ng') WITH ORDINALITY
            AS m (found, place)
        WHERE m.found[1] !~ ('^[<&(]*(?:dyn |mut )?(?:std|core|alloc|proc_macro|test|backtrace|redrive|anyhow|eyre|color_eyre|tokio'
                '|futures\w*|hyper\w*|reqwest|ureq|serde\w*|postgres|tokio_postgres|sqlx\w*|rayon\w*|tracing\w*)::'
                '|^<[A-Z]\w* as |^_?_?rustc?(?:_|::)|^(?:_start|main|clone\w*|start_thread|__libc\w*|<unknown>)$')
            AND m.found[1] ~ '::'
        ORDER BY m.place
        LIMIT 1;
    ELSIF trace ~ '\s+at \S' THEN
        -- The JVM: at com.acme.Order.pay(Order.java:17). Node: at pay (/app/order.js:17:5), at /app/order.js:17:5.
        SELECT coalesce(m.found[1], regexp_replace(m.found[3], '^.*[/\\]', '')) INTO frame
        FROM regexp_matches(trace,
                '^\s+at (?:async |new )?(?:(?:[\w.@-]*/{1,2})?([\w.$<>]+(?: \[as \w+\])?) ?\(([^\n]*)\)|(\S+?)(?::\d+)*)$', 'ng')
            WITH ORDINALITY AS m (found, place)
        WHERE coalesce(m.found[2], m.found[3]) !~ 'node:|node_modules|internal/|^(?:native|<anonymous>)$|^(?:std|core|alloc)::'
            AND coalesce(m.found[1], '') !~ ('^(?:java|javax|jdk|sun|com\.sun|jakarta|kotlin|kotlinx|scala|akka|groovy|clojure)\.'
                '|^(?:org\.(?:springframework|apache|hibernate|postgresql|eclipse|junit|slf4j|jboss|mariadb))\.'
                '|^(?:io\.(?:netty|grpc|micrometer|vertx|quarkus|reactivex))\.|^(?:reactor|okhttp\d|feign|retrofit\d)\.'
                '|^com\.(?:fasterxml|zaxxer|google|mysql|amazonaws|azure|stripe|oracle|microsoft)\.|^software\.amazon\.')
        ORDER BY m.place
        LIMIT 1;
    END IF;
    RETURN left(frame, 200);
END
$$;
