//! Vectors: which properties hold them, how they are compared, and how they are indexed.
//!
//! The *embedding policy* of a container describes its vectors; the *vector indexes* of its
//! indexing policy each refer to one of them. Entries may be added and removed later, but an entry
//! that exists may not be changed in place: its index would silently mean something else.

use crate::error::{Error, Result};
use crate::limits;
use crate::path::PropertyPath;
use crate::policy::shape;
use crate::value::{Object, Value};

/// A container's vectors.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorEmbeddingPolicy {
    /// One entry per path that holds a vector.
    pub embeddings: Vec<VectorEmbedding>,
}

/// One path that holds a vector.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorEmbedding {
    /// Where the vector stands.
    pub path: PropertyPath,
    /// The type of its elements.
    pub element: VectorElement,
    /// How many elements it has.
    pub dimensions: u32,
    /// How two vectors are compared.
    pub distance: VectorDistance,
}

/// The type of a vector's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum VectorElement {
    Float32,
    Float16,
    Int8,
    Uint8,
}

/// How two vectors are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum VectorDistance {
    Cosine,
    DotProduct,
    Euclidean,
}

/// One vector index.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorIndex {
    /// The path of the embedding it serves.
    pub path: PropertyPath,
    /// Its kind.
    pub kind: VectorIndexKind,
    /// How vectors are compressed, if stated.
    pub quantizer: Option<Quantizer>,
    /// The size of a compressed vector, if stated.
    pub quantized_bytes: Option<i64>,
    /// How many candidates a graph search keeps while the index is built, if stated.
    pub search_list: Option<u32>,
    /// The property the index is divided by, if stated.
    pub shard_key: Option<PropertyPath>,
}

/// The kinds of vector indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VectorIndexKind {
    /// All vectors as they are.
    Flat,
    /// All vectors, compressed.
    QuantizedFlat,
    /// A graph.
    DiskAnn,
}

/// The ways to compress vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Quantizer {
    Product,
    Spherical,
}

const ELEMENTS: &[(&str, VectorElement)] = &[
    ("float32", VectorElement::Float32),
    ("float16", VectorElement::Float16),
    ("int8", VectorElement::Int8),
    ("uint8", VectorElement::Uint8),
];
const DISTANCES: &[(&str, VectorDistance)] = &[
    ("cosine", VectorDistance::Cosine),
    ("dotproduct", VectorDistance::DotProduct),
    ("euclidean", VectorDistance::Euclidean),
];
const KINDS: &[(&str, VectorIndexKind)] = &[
    ("flat", VectorIndexKind::Flat),
    ("quantizedFlat", VectorIndexKind::QuantizedFlat),
    ("diskANN", VectorIndexKind::DiskAnn),
];
const QUANTIZERS: &[(&str, Quantizer)] =
    &[("product", Quantizer::Product), ("spherical", Quantizer::Spherical)];

impl VectorEmbeddingPolicy {
    /// Reads the member `vectorEmbeddingPolicy`.
    pub(super) fn parse(value: &Value) -> Result<VectorEmbeddingPolicy> {
        let policy = shape::object(value, "vectorEmbeddingPolicy")?;
        let mut embeddings: Vec<VectorEmbedding> = Vec::new();
        for entry in shape::array_or_empty(policy, "vectorEmbeddings")? {
            let entry = VectorEmbedding::parse(entry)?;
            if embeddings.iter().any(|other| same_path(&other.path, &entry.path)) {
                return Err(Error::bad_request(format!(
                    "The Vector Embedding Policy has the path {} twice.",
                    entry.path.text()
                )));
            }
            embeddings.push(entry);
        }
        Ok(VectorEmbeddingPolicy { embeddings })
    }

    /// The policy as clients see it.
    pub(super) fn to_value(&self) -> Value {
        let entries: Vec<Value> = self.embeddings.iter().map(VectorEmbedding::to_value).collect();
        Value::from(Object::new().with("vectorEmbeddings", entries))
    }

    fn find(&self, path: &PropertyPath) -> Option<&VectorEmbedding> {
        self.embeddings.iter().find(|embedding| same_path(&embedding.path, path))
    }
}

impl VectorEmbedding {
    fn parse(value: &Value) -> Result<VectorEmbedding> {
        let entry = shape::object(value, "vectorEmbeddings")?;
        let text = shape::string(
            shape::required(entry, "path", "A vector embedding")?,
            "vectorEmbeddings.path",
        )?;
        let path = PropertyPath::parse(text).map_err(|error| {
            Error::bad_request(format!(
                "The Vector Embedding Policy has an invalid Path:{text}. {error}"
            ))
        })?;
        let element = word(entry, "dataType", ELEMENTS, VectorElement::Float32, |text| {
            format!("The Vector Embedding Policy has an invalid DataType:{text}.")
        })?;
        let distance =
            word(entry, "distanceFunction", DISTANCES, VectorDistance::Cosine, |text| {
                format!("The Vector Embedding Policy has an invalid DistanceFunction:{text}.")
            })?;
        let dimensions = parse_dimensions(entry)?;
        if let Some(source) = shape::present(entry, "embeddingSource") {
            return Err(refuse_source(source));
        }
        Ok(VectorEmbedding { path, element, dimensions, distance })
    }

    fn to_value(&self) -> Value {
        Value::from(
            Object::new()
                .with("path", self.path.text())
                .with("dataType", Value::from(spelled(ELEMENTS, self.element)))
                .with("dimensions", Value::from(i64::from(self.dimensions)))
                .with("distanceFunction", Value::from(spelled(DISTANCES, self.distance))),
        )
    }
}

impl VectorIndex {
    /// Reads the member `vectorIndexes` of an indexing policy. Whether the paths exist is checked
    /// against the embedding policy, by [`check_indexes`].
    pub(super) fn parse_all(policy: &Object) -> Result<Vec<VectorIndex>> {
        let mut indexes: Vec<VectorIndex> = Vec::new();
        for entry in shape::array_or_empty(policy, "vectorIndexes")? {
            let index = VectorIndex::parse(entry)?;
            if indexes.iter().any(|other| same_path(&other.path, &index.path)) {
                return Err(Error::bad_request(format!(
                    "The Vector Indexing Policy has the path {} twice.",
                    index.path.text()
                )));
            }
            indexes.push(index);
        }
        Ok(indexes)
    }

    fn parse(value: &Value) -> Result<VectorIndex> {
        let of = "A vector index";
        let entry = shape::object(value, "vectorIndexes")?;
        let text = shape::string(shape::required(entry, "path", of)?, "vectorIndexes.path")?;
        let path = PropertyPath::parse(text).map_err(|error| {
            Error::bad_request(format!(
                "The Vector Indexing Policy has an invalid Path: {text}. {error}"
            ))
        })?;
        let kind = shape::string(shape::required(entry, "type", of)?, "vectorIndexes.type")?;
        let kind = shape::one_of(kind, KINDS).ok_or_else(|| {
            Error::bad_request(format!(
                "The Vector Indexing Policy's Index Type::{kind} is invalid."
            ))
        })?;
        let quantizer = match shape::present(entry, "quantizerType") {
            None => None,
            Some(_) => {
                Some(word(entry, "quantizerType", QUANTIZERS, Quantizer::Product, |text| {
                    format!("The Vector Indexing Policy's Quantizer Type::{text} is invalid.")
                })?)
            }
        };
        let search_list = search_list(entry)?;
        // How large it may be depends on the embedding, see `check_indexes`.
        let quantized_bytes = shape::present(entry, "quantizationByteSize")
            .map(|value| shape::integer(value, "quantizationByteSize"))
            .transpose()?;
        let shard_key = parse_shard_key(entry)?;
        Ok(VectorIndex { path, kind, quantizer, quantized_bytes, search_list, shard_key })
    }

    /// The index as clients see it: what was stated, nothing filled in.
    pub(super) fn to_value(&self) -> Value {
        let mut object = Object::new()
            .with("path", self.path.text())
            .with("type", Value::from(spelled(KINDS, self.kind)));
        if let Some(quantizer) = self.quantizer {
            object.insert("quantizerType", spelled(QUANTIZERS, quantizer));
        }
        if let Some(bytes) = self.quantized_bytes {
            object.insert("quantizationByteSize", bytes);
        }
        if let Some(size) = self.search_list {
            object.insert("indexingSearchListSize", i64::from(size));
        }
        if let Some(path) = &self.shard_key {
            object.insert("vectorIndexShardKey", vec![Value::from(path.text())]);
        }
        Value::from(object)
    }
}

/// Every vector index needs its embedding, and has to fit it.
pub(super) fn check_indexes(
    indexes: &[VectorIndex],
    policy: Option<&VectorEmbeddingPolicy>,
) -> Result<()> {
    for index in indexes {
        let path = index.path.text();
        let embedding = policy.and_then(|policy| policy.find(&index.path)).ok_or_else(|| {
            Error::bad_request(format!(
                "The Vector Indexing Policy's path::{path} not matching in Embedding's path."
            ))
        })?;
        let dimensions = embedding.dimensions;
        if index.kind == VectorIndexKind::Flat && dimensions > limits::VECTOR_FLAT_DIMENSIONS_MAX {
            return Err(Error::bad_request(format!(
                "The Vector Indexing Policy's path::{path} has Index Type::flat, which supports \
                 at most {} dimensions; its embedding has Dimensions:{dimensions}. Use \
                 quantizedFlat or diskANN.",
                limits::VECTOR_FLAT_DIMENSIONS_MAX
            )));
        }
        let max = i64::from(dimensions.min(limits::VECTOR_QUANTIZED_BYTES_MAX));
        if let Some(bytes) = index.quantized_bytes
            && !(1..=max).contains(&bytes)
        {
            return Err(out_of_range("QuantizationByteSize", bytes, 1, max));
        }
    }
    Ok(())
}

/// What a replace may not do: change an index that stays.
pub(super) fn check_replaced_indexes(old: &[VectorIndex], new: &[VectorIndex]) -> Result<()> {
    let changed =
        old.iter().find(|old| new.iter().any(|new| same_path(&new.path, &old.path) && new != *old));
    match changed {
        None => Ok(()),
        Some(index) => Err(Error::bad_request(format!(
            "Paths in existing vector indexing policy cannot be modified in Collection Replace. \
             They can only be added or removed: {}.",
            index.path.text()
        ))),
    }
}

/// What a replace may not do: change an embedding that stays.
pub(super) fn check_replaced_embeddings(
    old: Option<&VectorEmbeddingPolicy>,
    new: Option<&VectorEmbeddingPolicy>,
) -> Result<()> {
    let (Some(old), Some(new)) = (old, new) else { return Ok(()) };
    let changed =
        old.embeddings.iter().find(|old| new.find(&old.path).is_some_and(|new| new != *old));
    match changed {
        None => Ok(()),
        Some(embedding) => Err(Error::bad_request(format!(
            "Paths in existing embedding policy cannot be modified in Collection Replace. They \
             can only be added or removed: {}.",
            embedding.path.text()
        ))),
    }
}

fn parse_dimensions(entry: &Object) -> Result<u32> {
    let Some(value) = shape::present(entry, "dimensions") else {
        return Ok(limits::VECTOR_DIMENSIONS_DEFAULT);
    };
    let dimensions = shape::integer(value, "vectorEmbeddings.dimensions")?;
    let max = limits::VECTOR_DIMENSIONS_MAX;
    match u32::try_from(dimensions) {
        Ok(fits @ 1..) if fits <= max => Ok(fits),
        _ if dimensions > 0 => Err(Error::bad_request(format!(
            "The Vector Embedding Policy has Dimensions:{dimensions} which is more than the \
             maximum supported value {max}."
        ))),
        _ => Err(Error::bad_request(format!(
            "The Vector Embedding Policy has Dimensions:{dimensions} which is less than the \
             minimum supported value 1."
        ))),
    }
}

/// The service can fill vectors in by calling a model; we cannot, and say so once the request is
/// otherwise sound.
fn refuse_source(source: &Value) -> Error {
    let check = || -> Result<()> {
        let source = shape::object(source, "embeddingSource")?;
        let of = "'embeddingSource'";
        let paths = shape::array(shape::required(source, "sourcePaths", of)?, "sourcePaths")?;
        if paths.is_empty() {
            return Err(Error::bad_request("'sourcePaths' of 'embeddingSource' is empty"));
        }
        shape::string(shape::required(source, "deploymentName", of)?, "deploymentName")?;
        shape::string(shape::required(source, "endpoint", of)?, "endpoint")?;
        let auth = shape::string(shape::required(source, "authType", of)?, "authType")?;
        match shape::one_of(auth, &[("ApiKey", ()), ("Entra", ())]) {
            Some(()) => Ok(()),
            None => Err(Error::bad_request(
                "The auth type provided in the embedding source of vector policy is invalid. Use \
                 ApiKey or Entra.",
            )),
        }
    };
    check().err().unwrap_or_else(|| {
        Error::unsupported(
            "'embeddingSource' is not supported: the server does not generate embeddings; write \
             the vectors with your items",
        )
    })
}

fn parse_shard_key(entry: &Object) -> Result<Option<PropertyPath>> {
    let Some(value) = shape::present(entry, "vectorIndexShardKey") else { return Ok(None) };
    let paths = shape::array(value, "vectorIndexShardKey")
        .map_err(|error| Error::bad_request(format!("{}: {error}", super::INVALID_INPUT)))?;
    match paths {
        [] => Ok(None),
        [path] => {
            let text = shape::string(path, "vectorIndexShardKey")?;
            let path = PropertyPath::parse(text).map_err(|_| {
                Error::bad_request(format!(
                    "The Vector Indexing Policy has an invalid Shard Path: {text}."
                ))
            })?;
            Ok(Some(path))
        }
        more => Err(Error::bad_request(format!(
            "The number of shard paths defined in the Vector Indexing Policy: {} exceeds the \
             maximum: 1.",
            more.len()
        ))),
    }
}

/// A word out of a list, or the default when it is absent.
fn word<T: Copy>(
    entry: &Object,
    name: &str,
    words: &[(&'static str, T)],
    default: T,
    refusal: impl Fn(&str) -> String,
) -> Result<T> {
    let Some(value) = shape::present(entry, name) else { return Ok(default) };
    let text = shape::string(value, name)?;
    shape::one_of(text, words).ok_or_else(|| Error::bad_request(refusal(text)))
}

fn search_list(entry: &Object) -> Result<Option<u32>> {
    let name = "indexingSearchListSize";
    let Some(value) = shape::present(entry, name) else { return Ok(None) };
    let number = shape::integer(value, name)?;
    let (min, max) = (limits::VECTOR_SEARCH_LIST_MIN, limits::VECTOR_SEARCH_LIST_MAX);
    match u32::try_from(number) {
        Ok(fits) if (min..=max).contains(&fits) => Ok(Some(fits)),
        _ => Err(out_of_range("IndexingSearchListSize", number, min.into(), max.into())),
    }
}

fn out_of_range(parameter: &str, number: i64, min: i64, max: i64) -> Error {
    Error::bad_request(format!(
        "The Vector Indexing Policy parameter {parameter} value :: {number} is out of range. The \
         allowed range is between {min} and {max}."
    ))
}

fn spelled<T: Copy + PartialEq>(words: &[(&'static str, T)], meaning: T) -> &'static str {
    words
        .iter()
        .find(|(_, other)| *other == meaning)
        .map(|(word, _)| *word)
        .expect("every meaning has its word in the table")
}

fn same_path(a: &PropertyPath, b: &PropertyPath) -> bool {
    a.segments() == b.segments()
}
