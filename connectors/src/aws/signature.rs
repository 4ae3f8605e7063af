//! Signatures of requests, as Amazon's services check them.

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings, UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4;
use reqwest::Url;

use crate::http;

/// Who signs, for what, and when.
pub struct Signer<'a> {
    pub credentials: Credentials,
    pub region: &'a str,
    pub service: &'a str,
    pub time: SystemTime,
}

impl Signer<'_> {
    /// The headers that a request to S3 has besides these. S3 takes paths as they are sent, and wants to be told the
    /// digest of the body.
    pub fn sign(
        &self,
        method: &str,
        url: &Url,
        headers: &[(&str, String)],
        body: &[u8],
    ) -> Result<Vec<(String, String)>, String> {
        let mut settings = SigningSettings::default();
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        let identity = self.credentials.clone().into();
        let parameters = v4::SigningParams::builder()
            .identity(&identity)
            .region(self.region)
            .name(self.service)
            .time(self.time)
            .settings(settings)
            .build()
            .map_err(|error| http::chain(&error))?
            .into();
        let headers = headers.iter().map(|(name, value)| (*name, value.as_str()));
        let signable = SignableRequest::new(method, url.as_str(), headers, SignableBody::Bytes(body));
        let signed = signable.and_then(|signable| sign(signable, &parameters)).map_err(|error| http::chain(&error))?;
        let headers = signed.into_parts().0.into_parts().0;
        Ok(headers.into_iter().map(|header| (header.name().to_owned(), header.value().to_owned())).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The example of Amazon's own description of signatures for S3: "GET Object".
    #[test]
    fn a_request_to_s3_is_signed_as_amazon_signs_it() {
        let signer = Signer {
            credentials: Credentials::from_keys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", None),
            region: "us-east-1",
            service: "s3",
            time: SystemTime::UNIX_EPOCH + Duration::from_secs(1_369_353_600),
        };
        let url = Url::parse("https://examplebucket.s3.amazonaws.com/test.txt").unwrap();
        let signed = signer.sign("GET", &url, &[("range", "bytes=0-9".to_owned())], &[]).unwrap();
        let header = |name: &str| signed.iter().find(|(known, _)| known == name).unwrap().1.clone();
        assert_eq!(header("x-amz-date"), "20130524T000000Z");
        assert_eq!(header("x-amz-content-sha256"), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        let signature = "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
        assert!(header("authorization").ends_with(signature), "{}", header("authorization"));
    }
}
