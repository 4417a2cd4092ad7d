/// The text that says why there is no connection. It comes from the host or its transport, which often quote an exception, so that it may
/// contain several lines, control characters and the address with its password. People see it, and the log keeps it.
package enum OfflineReason {
    /// The maximum length, in bytes of UTF-8.
    package static let bytes = 255

    /// The maximum length within a sentence. What follows the reason has up to 100 bytes, and the texts of the C interface have 255.
    private static let bytesInSentence = 128

    /// Returns the text as one line, without credentials; too long a text is cut and ends with "…".
    package static func text(_ raw: String) -> String {
        LogText.line(raw.split(whereSeparator: \.isWhitespace).map(withoutCredentials).joined(separator: " "), bytes: bytes)
    }

    /// Returns the sentence "<beginning>: <reason>.", or "<beginning>." if no reason is known.
    static func sentence(_ beginning: String, _ reason: String) -> String {
        guard !reason.isEmpty else { return "\(beginning)." }
        let quoted = LogText.line(reason, bytes: bytesInSentence)
        return "\(beginning): \(quoted)\(quoted.hasSuffix(".") || quoted.hasSuffix("…") ? "" : ".")"
    }

    /// Whether both texts give the same reason. Numbers do not count: a duration, or the port of a connection, differs each time.
    package static func isSame(_ one: String, _ other: String) -> Bool {
        func withoutNumbers(_ text: String) -> [UInt8] { text.utf8.filter { !(0x30...0x39).contains($0) } }
        return one == other || !one.isEmpty && !other.isEmpty && withoutNumbers(one) == withoutNumbers(other)
    }

    // MARK: Credentials

    /// Leaves credentials out of one word: user names and passwords before the host of a URL, and values of parameters like `token=`.
    private static func withoutCredentials(_ word: Substring) -> String {
        var parts: [Substring] = []
        var rest = word[...]
        while let end = schemeEnd(rest) {
            parts.append(rest[..<end])
            rest = rest[end...]
        }
        parts.append(rest)
        var text = ""
        for (index, part) in parts.enumerated() {
            text += part[(index == 0 ? userEnd(part) : userEndInURL(part))...]
        }
        return withoutSecrets(text)
    }

    /// The index after the next "://".
    private static func schemeEnd(_ text: Substring) -> Substring.Index? {
        var index = text.startIndex
        while index < text.endIndex {
            if text[index...].hasPrefix("://") { return text.index(index, offsetBy: 3) }
            index = text.index(after: index)
        }
        return nil
    }

    /// Where the host begins in text without a scheme. A name without a password, as in an address of mail, stays.
    private static func userEnd(_ text: Substring) -> Substring.Index {
        guard let at = text.lastIndex(of: "@"), text[..<at].contains(":") else { return text.startIndex }
        return text.index(after: at)
    }

    /// Where the host begins in the text behind "://". A password may contain "/", which belongs in no URL: then what should be the port is
    /// no number.
    private static func userEndInURL(_ text: Substring) -> Substring.Index {
        let authority = text.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        if let at = authority.lastIndex(of: "@") { return text.index(after: at) }
        guard let at = text.lastIndex(of: "@"), let colon = authority.lastIndex(of: ":"),
            !authority[authority.index(after: colon)...].allSatisfy({ $0.isASCII && $0.isNumber })
        else { return text.startIndex }
        return text.index(after: at)
    }

    private static let secrets = ["password", "passwd", "pwd", "secret", "token", "apikey", "api_key", "access_key", "signature"]

    /// Replaces the values of parameters whose name ends like that of a secret by "…".
    private static func withoutSecrets(_ text: String) -> String {
        guard text.contains("=") else { return text }
        var kept = ""
        var name = ""
        var isSecret = false
        for character in text {
            if isSecret, !"&;,\"')".contains(character) { continue }
            isSecret = false
            kept.append(character)
            if character == "=" {
                isSecret = secrets.contains(where: name.hasSuffix)
                if isSecret { kept += "…" }
                name = ""
            } else {
                if "&;,?\"'(".contains(character) { name = "" } else { name += character.lowercased() }
            }
        }
        return kept
    }
}
