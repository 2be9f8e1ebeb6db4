//! The text of a foreign file, which may be compressed or in another encoding.

use std::{
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use flate2::read::MultiGzDecoder;
use record::{
    first_bytes::{GZIP, ZSTD, check_packed, utf_16},
    lines,
    rows::RowError,
};
use ruzstd::decoding::StreamingDecoder;

/// Reads a file as UTF-8 text: unpacks gzip and zstd, converts UTF-16, and drops the byte order mark. `file` is its name in errors.
///
/// # Errors
/// The file cannot be read or unpacked, or has no text.
pub fn decode(file: &Path, mut from: impl Read) -> Result<Vec<u8>, RowError> {
    let mut start = Vec::new();
    (&mut from).take(6).read_to_end(&mut start).map_err(|cause| unreadable(file, cause))?;
    check_packed(file, &start)?;
    let whole = start.chain(from);
    let bytes = match &start[..] {
        start if start.starts_with(GZIP) => lines::read_to_end(file, MultiGzDecoder::new(whole), 0)?,
        start if start.starts_with(ZSTD) => frames(file, BufReader::new(whole))?,
        _ => lines::read_to_end(file, whole, 0)?,
    };
    if let Some((mark, of_two)) = utf_16(&bytes) {
        let units = bytes[mark..].chunks_exact(2).map(|pair| of_two([pair[0], pair[1]]));
        let characters = char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER));
        return Ok(characters.collect::<String>().into_bytes());
    }
    Ok(bytes.strip_prefix(b"\xef\xbb\xbf").map(<[u8]>::to_vec).unwrap_or(bytes))
}

/// Unpacks the frames of zstd one after the other.
fn frames(file: &Path, mut from: impl BufRead) -> Result<Vec<u8>, RowError> {
    let mut text = Vec::new();
    while !from.fill_buf().map_err(|cause| unreadable(file, cause))?.is_empty() {
        let frame = StreamingDecoder::new(&mut from);
        let frame = frame.map_err(|error| unreadable(file, io::Error::other(error.to_string())))?;
        text.append(&mut lines::read_to_end(file, frame, 0)?);
    }
    Ok(text)
}

fn unreadable(file: &Path, cause: io::Error) -> RowError {
    RowError::Io { file: file.into(), cause }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const TEXT: &str = "a,b\n1,\u{e9}\n";

    fn decoded(bytes: &[u8]) -> Result<String, String> {
        let text = decode(Path::new("t"), bytes).map_err(|error| error.to_string())?;
        Ok(String::from_utf8(text).unwrap())
    }

    fn gzip(text: &str) -> Vec<u8> {
        let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        to.write_all(text.as_bytes()).unwrap();
        to.finish().unwrap()
    }

    fn zstd(text: &str) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(text.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest)
    }

    #[test]
    fn text_is_the_same_however_it_is_packed_and_encoded() {
        let with_bom = format!("\u{feff}{TEXT}");
        let utf16 =
            |text: &str, bytes: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(bytes).collect::<Vec<u8>>();
        for bytes in [
            TEXT.into(),
            with_bom.clone().into_bytes(),
            gzip(TEXT),
            [gzip("a,b\n"), gzip(&TEXT[4..])].concat(),
            zstd(TEXT),
            [zstd("a,b\n"), zstd(&TEXT[4..])].concat(),
            utf16(&with_bom, u16::to_le_bytes),
            utf16(&with_bom, u16::to_be_bytes),
            utf16(TEXT, u16::to_le_bytes),
            utf16(TEXT, u16::to_be_bytes),
        ] {
            assert_eq!(decoded(&bytes).as_deref(), Ok(TEXT), "{bytes:?}");
        }
        assert_eq!(decoded(b"").as_deref(), Ok(""));
    }

    #[test]
    fn files_without_text_are_refused_with_a_remedy() {
        for (bytes, message) in [
            (
                &b"PK\x03\x04.."[..],
                "t: line 1: this is a zip archive or a workbook; unpack it, or save its table as CSV",
            ),
            (b"PAR1..", "t: line 1: this is Parquet; write it as CSV"),
            (b"BZh9..", "t: line 1: this is compressed with bzip2; unpack it with `bzip2 -d`"),
            (b"\xfd7zXZ\0", "t: line 1: this is compressed with xz"),
            (&gzip(TEXT)[..15], "t: "),
            (&zstd(TEXT)[..9], "t: "),
        ] {
            let error = decoded(bytes).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
